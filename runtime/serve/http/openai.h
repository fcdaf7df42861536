// The OpenAI API's shapes: requests are parsed and checked here, answers are written here.
// Text in, text out; no sockets, no model.
//
// Laws (tests/serve/openai_test.cpp): unknown fields are ignored; a known field that would change
// the answer and that this version does not support is refused by name, never ignored; every error
// has the nested shape {"error":{message,type,param,code}}.
#pragma once
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/engine/model.h"
#include "runtime/engine/sampling.h"

namespace orrery::serve {

// An answer that is an error, with its HTTP status.
class ApiError : public std::exception {
 public:
  ApiError(int status_code, std::string type_name, std::string text, std::string parameter = {},
           std::string code_name = {})
      : status(status_code),
        type(std::move(type_name)),
        message(std::move(text)),
        param(std::move(parameter)),
        code(std::move(code_name)) {}
  const char* what() const noexcept override { return message.c_str(); }
  std::string body() const;

  int status;
  std::string type, message, param, code;  // param empty: null; code empty: the status
};

struct GenerationRequest {
  bool chat = false;
  std::string model;
  std::vector<engine::ChatMessage> messages;   // chat
  std::string prompt;                          // completions, as text …
  std::vector<engine::TokenId> prompt_tokens;  // … or as ids, when not empty
  std::optional<std::int64_t> max_tokens;
  engine::SamplingParams sampling;
  std::optional<std::uint64_t> seed;
  std::vector<std::string> stop;
  bool stream = false, include_usage = false, ignore_eos = false;
  std::int32_t priority = 0;
};

// Throws ApiError (400).
GenerationRequest parse_generation_request(std::string_view body, bool chat);

struct Usage {
  std::int64_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
};

// Writes one answer's JSON, streamed or whole; the id, time and model are the same in all of it.
class AnswerWriter {
 public:
  AnswerWriter(const GenerationRequest& request, std::string id, std::int64_t created,
               std::string model);
  const std::string& id() const { return id_; }
  // Server-sent events, complete with "data: " and the empty line.
  std::string role_event() const;  // chat only; empty for completions
  std::string text_event(std::string_view text) const;
  std::string finish_event(std::string_view finish_reason) const;
  std::string usage_event(const Usage& usage) const;  // empty unless asked for
  static std::string error_event(const ApiError& error);
  static std::string done_event() { return "data: [DONE]\n\n"; }
  // The whole answer, not streamed.
  std::string whole(std::string_view text, std::string_view finish_reason,
                    const Usage& usage) const;

 private:
  std::string event(std::string_view choices, const Usage* usage) const;
  bool chat_, include_usage_;
  std::string id_, head_;  // head_: `"id":…,"object":…,"created":…,"model":…`
  std::string chunk_head_;
};

// `"text"` with JSON escapes; invalid UTF-8 becomes U+FFFD.
std::string json_quote(std::string_view text);

}  // namespace orrery::serve
