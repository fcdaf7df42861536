#include "runtime/host/json_schema.h"

#include <string>
#include <vector>

#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

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
    throw InputError(place_of(document, pointer + "/" + name), "unknown key \"" + name + "\"",
                     nearest ? "\"" + *nearest + "\" (did you mean that?)" : "a key of the schema");
  }
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
  const std::string pointer = pointer_of(error.context);
  const Json value = value_at(document.root(), pointer);
  throw InputError(place_of(document, pointer),
                   value.is_structured() ? "a value that breaks the schema" : value.dump(),
                   "what the schema says: " + error.description);
}

}  // namespace orrery::host
