#include "runtime/host/json_schema.h"

#include <gtest/gtest.h>

namespace orrery::host {
namespace {

const Json kSchema = Json::parse(R"({
  "type": "object", "required": ["fleet"], "additionalProperties": false,
  "properties": {
    "fleet": {"type": "array", "minItems": 1, "items": {"$ref": "#/definitions/pool"}},
    "name": {"type": "string"}},
  "definitions": {"pool": {
    "type": "object", "additionalProperties": false,
    "properties": {"replicas": {"type": "integer", "minimum": 1}, "role": {"enum": ["a", "b"]}}}}
})");

std::string error_of(const std::string& text) {
  try {
    check_schema(*JsonDocument::parse(text, "f.json"), kSchema);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(JsonSchema, a_document_that_agrees_passes) {
  EXPECT_EQ(error_of(R"({"name": "x", "fleet": [{"replicas": 3, "role": "b"}]})"), "");
}

TEST(JsonSchema, unknown_keys_are_named_with_their_line_and_the_nearest) {
  EXPECT_EQ(
      error_of("{\"fleet\": [{},\n{\"replcias\": 3}]}"),
      "f.json:2: fleet[1].replcias: found unknown key \"replcias\", expected \"replicas\" (did "
      "you mean that?)");
  EXPECT_NE(error_of("{\"fleet\": [{}],\n\"nmae\": \"x\"}").find("\"name\" (did you mean that?)"),
            std::string::npos);
}

TEST(JsonSchema, wrong_values_are_named_with_their_line) {
  const std::string wrong_type = error_of("{\"fleet\": [\n{\"replicas\":\n 0}]}");
  EXPECT_EQ(wrong_type.rfind("f.json:2: fleet[0].replicas: found 0, expected", 0), 0U)
      << wrong_type;
  EXPECT_NE(error_of("{\"fleet\": [{\"role\": \"c\"}]}").find("fleet[0].role: found \"c\""),
            std::string::npos);
  EXPECT_NE(error_of("{\"name\": \"x\"}"), "");
  EXPECT_NE(error_of("{\"fleet\": []}").find("fleet"), std::string::npos);
  EXPECT_NE(error_of("[]"), "");
}

}  // namespace
}  // namespace orrery::host
