#include "runtime/host/json_schema.h"

#include <cmath>
#include <string>
#include <vector>

#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

#include "runtime/host/files.h"
#include "runtime/host/process.h"

namespace orrery::host {
namespace {

// valijson says where as {"<root>", "[fleet]", "[0]"}; this is "/fleet/0".
std::string pointer_of(const std::vector<std::string>& context) {
  std::string pointer;
  for (const std::string& part : context) {
    if (part.size() < 2 || part.front() != '[') continue;
    pointer += "/";
    for (const char c : part.substr(1, part.size() - 2))
      pointer += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  }
  return pointer;
}

Json value_at(const Json& root, const std::string& pointer) {
  const Json::json_pointer at(pointer);
  return root.contains(at) ? root[at] : Json();
}

// The part of the schema that describes the value at `context`, as far as properties, items and
// references lead there; null where they do not.
Json schema_at(const Json& schema, const std::vector<std::string>& context) {
  Json here = schema;
  const auto follow = [&] {
    for (int hops = 0; hops < 16 && here.is_object() && here.contains("$ref"); ++hops) {
      const std::string target = here["$ref"].get<std::string>();
      if (!target.starts_with("#/")) return;
      here = value_at(schema, target.substr(1));
    }
  };
  follow();
  for (const std::string& part : context) {
    if (part.size() < 2 || part.front() != '[' || !here.is_object()) continue;
    const std::string name = part.substr(1, part.size() - 2);
    Json next;
    if (here.contains("properties") && here["properties"].contains(name))
      next = here["properties"][name];
    else if (here.contains("items") && here["items"].is_object())
      next = here["items"];
    else if (here.contains("additionalProperties") && here["additionalProperties"].is_object())
      next = here["additionalProperties"];
    here = next;
    follow();
  }
  return here;
}

InputError::Place place_of(const JsonDocument& document, const std::string& pointer) {
  return {document.name(), document.line_of(pointer), field_name(pointer)};
}

// Throws for a key of the object at `context` that its closed schema does not name.
void refuse_unknown_key(const JsonDocument& document, const Json& schema,
                        const std::vector<std::string>& context) {
  const Json at = schema_at(schema, context);
  if (!at.is_object() || !at.contains("properties") || at.contains("patternProperties") ||
      at.value("additionalProperties", Json(true)) != Json(false))
    return;
  const std::string pointer = pointer_of(context);
  const Json value = value_at(document.root(), pointer);
  std::vector<std::string> known;
  for (const auto& [name, unused] : at["properties"].items()) known.push_back(name);
  if (!value.is_object()) return;
  for (const auto& [name, unused] : value.items()) {
    if (at["properties"].contains(name)) continue;
    const auto nearest = did_you_mean(name, known);
    std::string all;
    for (const std::string& key : known) all += (all.empty() ? "one of " : ", ") + key;
    throw InputError(place_of(document, pointer + "/" + name), "unknown key \"" + name + "\"",
                     nearest ? "\"" + *nearest + "\" (did you mean that?)" : all);
  }
}

void refuse_missing_key(const JsonDocument& document, const Json& schema,
                        const std::vector<std::string>& context) {
  const Json at = schema_at(schema, context);
  const std::string pointer = pointer_of(context);
  const Json value = value_at(document.root(), pointer);
  if (!at.is_object() || !at.contains("required") || !value.is_object()) return;
  for (const Json& name : at["required"]) {
    const std::string key = name.get<std::string>();
    if (value.contains(key)) continue;
    InputError::Place place = place_of(document, pointer);
    place.field += (place.field.empty() ? "" : ".") + key;
    throw InputError(place, "nothing", "this key");
  }
}

bool has_type(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  const bool whole =
      value.is_number_integer() ||
      (value.is_number_float() && value.get<double>() == std::floor(value.get<double>()));
  return type == "integer" ? whole : value.is_number();
}

std::string type_in_words(const std::string& type) {
  if (type == "object") return "an object";
  if (type == "array") return "an array";
  if (type == "string") return "a text in quotes";
  if (type == "boolean") return "true or false";
  if (type == "integer") return "a whole number";
  return type == "number" ? "a number" : type;
}

// What the part of a schema asks of a value that breaks it, in the words of the readers; empty
// where none of the simple rules is what it breaks.
std::string expectation(const Json& at, const Json& value) {
  if (!at.is_object()) return "";
  if (at.contains("const")) return at["const"].dump();
  std::string list;
  for (const Json& choice : at.value("enum", Json::array()))
    list += (list.empty() ? "" : ", ") + choice.dump();
  if (!list.empty()) return "one of " + list;
  if (at.contains("type")) {
    const Json types = at["type"].is_array() ? at["type"] : Json::array({at["type"]});
    bool fits = false;
    for (const Json& type : types) {
      fits = fits || has_type(value, type.get<std::string>());
      list += (list.empty() ? "" : " or ") + type_in_words(type.get<std::string>());
    }
    if (!fits) return list;
  }
  if (value.is_number()) {
    const double x = value.get<double>();
    if (at.contains("minimum") && x < at["minimum"].get<double>())
      return "at least " + at["minimum"].dump();
    if (at.contains("exclusiveMinimum") && x <= at["exclusiveMinimum"].get<double>())
      return "a number above " + at["exclusiveMinimum"].dump();
    if (at.contains("maximum") && x > at["maximum"].get<double>())
      return "at most " + at["maximum"].dump();
  }
  if (value.is_array() && at.contains("minItems") &&
      value.size() < at["minItems"].get<std::size_t>())
    return "at least " + at["minItems"].dump() + " of them";
  return "";
}

}  // namespace

void check_schema(const JsonDocument& document, const Json& schema) {
  using Adapter = valijson::adapters::NlohmannJsonAdapter;
  // The adapter reads the unordered kind of document.
  const nlohmann::json plain_schema(schema), plain(document.root());
  valijson::Schema parsed;
  valijson::SchemaParser(valijson::SchemaParser::kDraft7)
      .populateSchema(Adapter(plain_schema), parsed);
  valijson::ValidationResults results;
  if (valijson::Validator().validate(parsed, Adapter(plain), &results)) return;
  // The first error is the innermost that valijson met; those above it only repeat that it failed.
  valijson::ValidationResults::Error error;
  results.popError(error);
  refuse_unknown_key(document, schema, error.context);
  refuse_missing_key(document, schema, error.context);
  const std::string pointer = pointer_of(error.context);
  const Json value = value_at(document.root(), pointer);
  const std::string words = expectation(schema_at(schema, error.context), value);
  const std::string found = value.is_object()  ? "an object"
                            : value.is_array() ? "an array of " + std::to_string(value.size())
                                               : value.dump();
  throw InputError(place_of(document, pointer), found,
                   words.empty() ? "what the schema says: " + error.description : words);
}

std::shared_ptr<const JsonDocument> read_checked_json(const std::string& path,
                                                      const std::string& kind) {
  auto document = read_json(path);
  const JsonView root(document);
  const std::string name = "orrery." + kind + ".v1";
  if (!root.is_object()) root.fail("an object with \"schema\": \"" + name + "\"");
  if (const JsonView schema = root.at("schema"); schema.json() != Json(name))
    schema.fail("\"" + name + "\"");
  check_schema(*document, read_json(data_dir() + "/scenarios/schema/" + kind + ".v1.json")->root());
  return document;
}

}  // namespace orrery::host
