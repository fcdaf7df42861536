#include "runtime/deploy/verify_run.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <system_error>

#include "runtime/base/errors.h"
#include "runtime/base/json.h"
#include "runtime/host/files.h"
#include "runtime/host/journal_file.h"
#include "runtime/policy/journal.h"

namespace orrery::deploy {
namespace {

using policy::RecordKind;

// Where the check of a whole run says no, at most this many are spelled out.
constexpr std::size_t kMostProblems = 20;

bool is_cut(const InputError& error) { return error.found() == "a record cut short"; }

// Verifies one file; `look` sees every record on its way. may_be_cut: its process was killed or
// still writes, so an end in the middle of a record, or of a run, is no fault of the journal.
FileVerdict verify(const std::string& path, bool may_be_cut,
                   const std::function<void(const JournalRecord&)>& look) {
  FileVerdict verdict;
  verdict.file = path;
  host::JournalFileReader reader(path);
  std::uint64_t read = 0;
  const auto next = [&]() -> std::optional<JournalRecord> {
    std::optional<JournalRecord> record;
    try {
      record = reader.next();
    } catch (const InputError& error) {
      if (!may_be_cut || !is_cut(error)) throw;
      verdict.cut = true;
    }
    if (record) ++read;
    if (record && look) look(*record);
    return record;
  };
  const policy::VerifyResult result = policy::verify_journal(
      next, may_be_cut ? policy::JournalEnd::kLost : policy::JournalEnd::kWhole);
  verdict.ok = result.ok || (read == 0 && may_be_cut);
  verdict.records = result.records;
  verdict.bad_record = result.bad_record;
  verdict.hash = result.hash;
  verdict.detail = result.detail;
  return verdict;
}

struct Manifest {
  struct Worker {
    std::uint32_t instance = 0;
    std::string slot, journal, end;
  };
  std::string gateway_journal, gateway_end;
  std::vector<Worker> workers;
};

Manifest read_manifest(const std::string& folder) {
  if (std::error_code error; !std::filesystem::exists(folder + "/fleet.json", error))
    throw InputError({folder, 0, ""}, "a folder without fleet.json", "the folder of a run");
  const JsonView json(host::read_json(folder + "/fleet.json"));
  Manifest manifest;
  manifest.gateway_journal = json.at("gateway").at("journal").as_string();
  manifest.gateway_end = json.at("gateway").at("end").as_string();
  for (const JsonView& worker : json.at("workers").items()) {
    manifest.workers.push_back({static_cast<std::uint32_t>(worker.at("instance").as_int()),
                                worker.at("slot").as_string(), worker.at("journal").as_string(),
                                worker.at("end").as_string()});
  }
  return manifest;
}

// Requests by the instance they were placed at, or submitted at.
using ByInstance = std::map<std::uint32_t, std::map<std::uint64_t, int>>;

void compare(const Manifest& manifest, const ByInstance& placed, const ByInstance& submitted,
             RunVerdict& verdict) {
  const auto problem = [&verdict](const std::string& text) {
    if (verdict.problems.size() < kMostProblems) verdict.problems.push_back(text);
  };
  std::map<std::uint32_t, const Manifest::Worker*> workers;
  for (const Manifest::Worker& worker : manifest.workers) workers[worker.instance] = &worker;
  for (const auto& [instance, requests] : placed) {
    const auto worker = workers.find(instance);
    const auto there = submitted.find(instance);
    for (const auto& [request, times] : requests) {
      verdict.placements += times;
      int submits = 0;
      if (there != submitted.end()) {
        const auto found = there->second.find(request);
        if (found != there->second.end()) submits = found->second;
      }
      const std::string what = "request " + std::to_string(request) + " at instance " +
                               std::to_string(instance) + ": " + std::to_string(times) +
                               " placements, " + std::to_string(submits) + " submits";
      if (submits == times) {
        verdict.confirmed += times;
      } else if (submits < times && worker != workers.end() && worker->second->end != "clean") {
        verdict.unconfirmed += times - submits;
      } else {
        problem(what);
      }
    }
  }
  for (const auto& [instance, requests] : submitted) {
    const auto there = placed.find(instance);
    for (const auto& [request, times] : requests) {
      if (there != placed.end() && there->second.contains(request)) continue;
      // The gateway's journal may end earlier than a worker's while both are being written.
      if (manifest.gateway_end != "clean") continue;
      problem("request " + std::to_string(request) + " at instance " + std::to_string(instance) +
              ": no placement, " + std::to_string(times) + " submits");
    }
  }
}

}  // namespace

bool RunVerdict::ok() const {
  return problems.empty() &&
         std::all_of(files.begin(), files.end(), [](const FileVerdict& f) { return f.ok; });
}

FileVerdict verify_file(const std::string& path) { return verify(path, false, nullptr); }

RunVerdict verify_run(const std::string& folder) {
  const Manifest manifest = read_manifest(folder);
  RunVerdict verdict;
  verdict.running = manifest.gateway_end != "clean";
  ByInstance placed, submitted;
  FileVerdict gateway = verify(folder + "/" + manifest.gateway_journal, verdict.running,
                               [&](const JournalRecord& record) {
                                 if (record.kind != static_cast<std::uint32_t>(RecordKind::kRoute))
                                   return;
                                 const auto instance = policy::placement_of(record);
                                 if (instance)
                                   ++placed[instance->value][policy::request_of(record).value];
                               });
  gateway.file = manifest.gateway_journal;
  gateway.slot = "gateway";
  verdict.files.push_back(std::move(gateway));
  for (const Manifest::Worker& worker : manifest.workers) {
    if (worker.journal.empty()) continue;
    std::map<std::uint64_t, int>& submits = submitted[worker.instance];
    FileVerdict file;
    try {
      file = verify(folder + "/" + worker.journal, worker.end != "clean",
                    [&](const JournalRecord& record) {
                      if (record.kind != static_cast<std::uint32_t>(RecordKind::kSubmit)) return;
                      ++submits[policy::request_of(record).value];
                    });
    } catch (const InputError& error) {
      // A worker that died before it wrote anything has no journal, and made no decision.
      file.ok = file.cut = worker.end != "clean";
      file.detail = error.what();
    }
    file.file = worker.journal;
    file.slot = worker.slot;
    verdict.files.push_back(std::move(file));
  }
  compare(manifest, placed, submitted, verdict);
  return verdict;
}

}  // namespace orrery::deploy
