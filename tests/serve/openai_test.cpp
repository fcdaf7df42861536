#include "runtime/serve/http/openai.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace orrery::serve {
namespace {

ApiError error_of(const std::string& body, bool chat = false) {
  try {
    parse_generation_request(body, chat);
  } catch (const ApiError& error) {
    return error;
  }
  ADD_FAILURE() << "accepted: " << body;
  return ApiError(0, "", "");
}

TEST(OpenAi, unknown_fields_are_ignored_and_known_ones_are_read) {
  const GenerationRequest r = parse_generation_request(
      R"({"model":"m","prompt":"hi","max_tokens":7,"temperature":0,"top_p":0.5,"top_k":-1,"seed":42,
          "stop":["a","b"],"stream":true,"stream_options":{"include_usage":true},
          "ignore_eos":true,"user":"u","metadata":{"a":1},"n":1,"no_such_field":[1,2]})",
      false);
  EXPECT_EQ(r.model, "m");
  EXPECT_EQ(r.prompt, "hi");
  EXPECT_EQ(r.max_tokens, 7);
  EXPECT_EQ(r.sampling.temperature, 0);
  EXPECT_EQ(r.sampling.top_p, 0.5);
  EXPECT_EQ(r.sampling.top_k, 0);
  EXPECT_EQ(r.seed, 42U);
  EXPECT_EQ(r.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(r.stream && r.include_usage && r.ignore_eos);
}

TEST(OpenAi, prompts_may_be_token_ids_or_a_batch_of_one) {
  using Ids = std::vector<engine::TokenId>;
  EXPECT_EQ(parse_generation_request(R"({"prompt":[1,2,3]})", false).prompt_tokens, (Ids{1, 2, 3}));
  EXPECT_EQ(parse_generation_request(R"({"prompt":[[4,5]]})", false).prompt_tokens, (Ids{4, 5}));
  EXPECT_EQ(parse_generation_request(R"({"prompt":["one"]})", false).prompt, "one");
  EXPECT_EQ(error_of(R"({"prompt":["a","b"]})").code, "unsupported_parameter");
  EXPECT_EQ(error_of(R"({"prompt":[1,-2]})").param, "prompt");
  EXPECT_EQ(error_of(R"({"prompt":[]})").param, "prompt");
}

TEST(OpenAi, chat_content_may_be_a_string_or_text_parts) {
  const GenerationRequest r = parse_generation_request(
      R"({"messages":[{"role":"system","content":"s"},
          {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
          {"role":"assistant","content":null}],"max_completion_tokens":3,"max_tokens":9})",
      true);
  ASSERT_EQ(r.messages.size(), 3U);
  EXPECT_EQ(r.messages[1].content, "ab");
  EXPECT_EQ(r.max_tokens, 3);
  EXPECT_EQ(
      error_of(R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})", true).code,
      "unsupported_parameter");
}

TEST(OpenAi, a_field_that_would_change_the_answer_is_refused_by_name) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("n":2)", "n"},
      {R"("best_of":3)", "best_of"},
      {R"("echo":true)", "echo"},
      {R"("logprobs":1)", "logprobs"},
      {R"("logit_bias":{"1":2})", "logit_bias"},
      {R"("frequency_penalty":0.5)", "frequency_penalty"},
      {R"("response_format":{"type":"json_object"})", "response_format"},
      {R"("tools":[{"type":"function"}])", "tools"},
      {R"("min_tokens":4)", "min_tokens"},
      {R"("suffix":"x")", "suffix"},
  };
  for (const auto& [field, name] : cases) {
    const ApiError error = error_of(std::string(R"({"prompt":"a",)") + field + "}");
    EXPECT_EQ(error.status, 400) << field;
    EXPECT_EQ(error.param, name) << field;
    EXPECT_EQ(error.code, "unsupported_parameter") << field;
  }
  const char* neutral =
      R"({"prompt":"a","n":1,"echo":false,"logprobs":null,"frequency_penalty":0,"tools":[],
          "response_format":{"type":"text"},"logit_bias":{},"suffix":""})";
  EXPECT_NO_THROW(parse_generation_request(neutral, false));
}

TEST(OpenAi, bad_values_name_their_field) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"prompt":"a","temperature":-1})", "temperature"},
      {R"({"prompt":"a","temperature":"hot"})", "temperature"},
      {R"({"prompt":"a","top_p":0})", "top_p"},
      {R"({"prompt":"a","top_k":-2})", "top_k"},
      {R"({"prompt":"a","max_tokens":0})", "max_tokens"},
      {R"({"prompt":"a","max_tokens":1.5})", "max_tokens"},
      {R"({"prompt":"a","stop":[1]})", "stop"},
      {R"({"prompt":"a","stop":""})", "stop"},
      {R"({"prompt":"a","stream":1})", "stream"},
      {R"({"prompt":"a","stream_options":{}})", "stream_options"},
      {R"({"prompt":"a","model":3})", "model"},
      {R"({"prompt":"a","priority":99999999999})", "priority"},
      {R"({})", "prompt"},
  };
  for (const auto& [body, name] : cases) EXPECT_EQ(error_of(body).param, name) << body;
  EXPECT_EQ(error_of("{\"prompt\":").status, 400);
  EXPECT_EQ(error_of("[1]").status, 400);
  EXPECT_EQ(error_of("{}", true).param, "messages");
  EXPECT_EQ(error_of(R"({"messages":[{}]})", true).param, "messages[0]");
}

TEST(OpenAi, errors_have_the_nested_shape) {
  const auto json = nlohmann::json::parse(
      ApiError(404, "NotFoundError", "no \"x\"", "model", "model_not_found").body());
  EXPECT_EQ(json["error"]["message"], "no \"x\"");
  EXPECT_EQ(json["error"]["type"], "NotFoundError");
  EXPECT_EQ(json["error"]["param"], "model");
  EXPECT_EQ(json["error"]["code"], "model_not_found");
  const auto plain = nlohmann::json::parse(ApiError(429, "rate_limit_error", "full").body());
  EXPECT_TRUE(plain["error"]["param"].is_null());
  EXPECT_EQ(plain["error"]["code"], 429);
}

nlohmann::json data_of(const std::string& event) {
  EXPECT_TRUE(event.starts_with("data: ")) << event;
  EXPECT_TRUE(event.ends_with("\n\n")) << event;
  return nlohmann::json::parse(event.substr(6));
}

TEST(OpenAi, streamed_events_share_id_and_time_and_usage_comes_last_and_alone) {
  GenerationRequest request;
  request.chat = true, request.include_usage = true;
  const AnswerWriter writer(request, "chatcmpl-1", 1700000000, "m");
  const auto role = data_of(writer.role_event()), text = data_of(writer.text_event("a\nb\xff")),
             finish = data_of(writer.finish_event("stop")),
             usage = data_of(writer.usage_event({10, 3, 4}));
  for (const auto& event : {role, text, finish, usage}) {
    EXPECT_EQ(event["id"], "chatcmpl-1");
    EXPECT_EQ(event["created"], 1700000000);
    EXPECT_EQ(event["object"], "chat.completion.chunk");
    EXPECT_TRUE(event.contains("usage"));
  }
  EXPECT_EQ(role["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(text["choices"][0]["delta"]["content"], "a\nb\xEF\xBF\xBD");
  EXPECT_TRUE(text["usage"].is_null());
  EXPECT_TRUE(finish["choices"][0]["delta"].empty());
  EXPECT_EQ(finish["choices"][0]["finish_reason"], "stop");
  EXPECT_TRUE(usage["choices"].empty());
  EXPECT_EQ(usage["usage"]["total_tokens"], 13);
  EXPECT_EQ(usage["usage"]["prompt_tokens_details"]["cached_tokens"], 4);
}

TEST(OpenAi, without_include_usage_there_is_no_usage_event) {
  GenerationRequest request;
  const AnswerWriter writer(request, "cmpl-1", 1, "m");
  EXPECT_EQ(writer.usage_event({1, 1, 0}), "");
  EXPECT_EQ(writer.role_event(), "");
  EXPECT_FALSE(data_of(writer.text_event("x")).contains("usage"));
  const auto whole = nlohmann::json::parse(writer.whole("x", "length", {5, 2, 0}));
  EXPECT_EQ(whole["object"], "text_completion");
  EXPECT_EQ(whole["choices"][0]["text"], "x");
  EXPECT_EQ(whole["usage"]["completion_tokens"], 2);
}

}  // namespace
}  // namespace orrery::serve
