#include "sim/catalog_files.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>

#include "runtime/base/errors.h"
#include "runtime/host/files.h"

namespace orrery::sim {
namespace {

std::string lower(std::string s) {
  for (char& c : s) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return s;
}

// The hub name without its owner: "meta-llama/Llama-3.1-8B" -> "llama-3.1-8b".
std::string without_owner(const std::string& name) {
  const auto slash = name.find('/');
  return slash == std::string::npos ? name : name.substr(slash + 1);
}

[[noreturn]] void unknown(const std::string& kind, const std::string& name,
                          const std::vector<std::string>& known) {
  std::string expected = (kind == "instance" ? "an " : "a ") + kind + " of the catalogue";
  if (const auto near = did_you_mean(lower(name), known)) {
    expected += "; did you mean \"" + *near + "\"?";
  } else {
    expected += " (orrery catalog " + kind + "s lists them)";
  }
  throw InputError({"catalog", 0, kind}, "\"" + name + "\"", expected);
}

template <class T>
const T& find(const std::vector<T>& all, const std::string& kind, const std::string& id) {
  for (const T& entry : all) {
    if (lower(entry.id) == lower(id)) return entry;
  }
  std::vector<std::string> known;
  for (const T& entry : all) known.push_back(entry.id);
  unknown(kind, id, known);
}

// "source" of an entry is one of the file's short names or several of them joined by "; ".
std::string spelled_out(const std::string& keys, const std::map<std::string, std::string>& sources,
                        const JsonView& at) {
  std::string all;
  for (std::size_t begin = 0; begin <= keys.size();) {
    const std::size_t end = std::min(keys.find("; ", begin), keys.size());
    const std::string key = keys.substr(begin, end - begin);
    const auto it = sources.find(key);
    if (it == sources.end()) at.fail("a name of the file's \"sources\"", "source \"" + key + "\"");
    all += (all.empty() ? "" : "; ") + it->second;
    begin = end + 2;
  }
  return all;
}

template <class T>
std::vector<T> read_file_of(const std::string& path, const char* kind, T (*read)(const JsonView&)) {
  const JsonView root(host::read_json(path));
  root.allow_only({"schema", "kind", "about", "sources", kind});
  if (root.at("schema").as_string() != "orrery.catalog.v1") {
    root.at("schema").fail("\"orrery.catalog.v1\"");
  }
  std::map<std::string, std::string> sources;
  for (const auto& [key, text] : root.at("sources").members()) sources[key] = text.as_string();
  std::vector<T> entries;
  std::set<std::string> seen;
  for (const JsonView& item : root.at(kind).items()) {
    T entry = read(item);
    if (!seen.insert(lower(entry.id)).second) item.at("id").fail("an id that no other entry has");
    entry.source = spelled_out(entry.source, sources, item);
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::vector<cost::EngineProfile> read_profiles(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(folder, error)) {
    if (file.path().extension() == ".json") paths.push_back(file.path().string());
  }
  if (error) throw InputError({folder, 0, ""}, error.message(), "a folder of engine profiles");
  std::sort(paths.begin(), paths.end());
  std::vector<cost::EngineProfile> profiles;
  for (const std::string& path : paths) {
    const JsonView root(host::read_json(path));
    if (root.at("schema").as_string() != "orrery.profile.v1") {
      root.at("schema").fail("\"orrery.profile.v1\"");
    }
    profiles.push_back(cost::read_engine_profile(root));
    if (profiles.back().id != std::filesystem::path(path).stem().string()) {
      root.at("id").fail("the file's own name");
    }
  }
  return profiles;
}

}  // namespace

const cost::ModelSpec& Catalog::model(const std::string& name) const {
  for (const cost::ModelSpec& m : models) {
    if (lower(m.id) == lower(name) || lower(m.hf_id) == lower(name)) return m;
  }
  // A variant of a known shape by its hub name, as "…/Llama-3.1-8B-Instruct". Not "-FP8": that
  // changes the weights, which the caller has to ask for.
  std::string bare = lower(without_owner(name));
  for (const std::string suffix : {"-2507", "-instruct", "-thinking", "-hf", "-chat", "-it"}) {
    if (bare.ends_with(suffix)) bare.resize(bare.size() - suffix.size());
  }
  for (const cost::ModelSpec& m : models) {
    if (lower(m.id) == bare) return m;
  }
  return find(models, "model", without_owner(name));
}

const cost::GpuSpec& Catalog::gpu(const std::string& id) const { return find(gpus, "gpu", id); }

const cost::InstanceType& Catalog::instance(const std::string& id) const {
  return find(instances, "instance", id);
}

const cost::EngineProfile& Catalog::profile(const std::string& id) const {
  return find(profiles, "profile", id);
}

const cost::EngineProfile& Catalog::default_profile_for(const std::string& gpu_id) const {
  return profile("generic-" + lower(gpu_id));
}

cost::GpuSpec Catalog::gpu_of(const cost::InstanceType& instance) const {
  return cost::gpu_in_instance(gpu(instance.gpu), instance);
}

Catalog load_catalog(const std::string& data_dir) {
  const std::string folder = data_dir + "/scenarios/catalog/";
  Catalog c;
  c.models = read_file_of(folder + "models.json", "models", cost::read_model);
  c.gpus = read_file_of(folder + "gpus.json", "gpus", cost::read_gpu);
  c.instances = read_file_of(folder + "instances.json", "instances", cost::read_instance_type);
  c.profiles = read_profiles(data_dir + "/scenarios/profiles");
  for (const cost::InstanceType& i : c.instances) {
    if (!i.gpu.empty()) c.gpu(i.gpu);
  }
  for (const cost::EngineProfile& p : c.profiles) {
    if (!p.gpu.empty()) c.gpu(p.gpu);
  }
  return c;
}

}  // namespace orrery::sim
