#include "runtime/serve/http/openai.h"

#include <cmath>
#include <utility>

#include "runtime/base/errors.h"
#include "runtime/base/json.h"

namespace orrery::serve {
namespace {

using RawJson = nlohmann::json;

[[noreturn]] void bad_request(const std::string& message, const std::string& param = {},
                              const std::string& code = {}) {
  throw ApiError(400, "invalid_request_error", message, param, code);
}

std::string kind_of(const RawJson& value) { return value.type_name(); }

// Readers of one member: absent and null are the same.
const RawJson* member(const RawJson& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}
bool read_bool(const RawJson& object, const char* key) {
  const RawJson* value = member(object, key);
  if (value == nullptr) return false;
  if (!value->is_boolean())
    bad_request(std::string(key) + " must be true or false, not a " + kind_of(*value), key);
  return value->get<bool>();
}
double read_number(const RawJson& object, const char* key, double fallback) {
  const RawJson* value = member(object, key);
  if (value == nullptr) return fallback;
  if (!value->is_number())
    bad_request(std::string(key) + " must be a number, not a " + kind_of(*value), key);
  return value->get<double>();
}
std::optional<std::int64_t> read_integer(const RawJson& object, const char* key) {
  const RawJson* value = member(object, key);
  if (value == nullptr) return std::nullopt;
  if (value->is_number_unsigned() && value->get<std::uint64_t>() > INT64_MAX) {
    bad_request(std::string(key) + " is too large", key);
  }
  if (value->is_number_integer()) return value->get<std::int64_t>();
  if (value->is_number_float()) {
    const double number = value->get<double>();
    if (number == std::floor(number) && std::fabs(number) < 9e15) {
      return static_cast<std::int64_t>(number);
    }
  }
  bad_request(std::string(key) + " must be a whole number", key);
}

// Fields that would change the answer. Their neutral values pass.
void refuse_unsupported(const RawJson& body, bool chat) {
  const auto refuse = [](const char* key, const std::string& allowed) {
    bad_request(std::string(key) + " is not supported yet: " + allowed, key,
                "unsupported_parameter");
  };
  for (const char* key : {"n", "best_of"}) {
    if (read_integer(body, key).value_or(1) != 1) refuse(key, "only 1 is");
  }
  for (const char* key : {"frequency_penalty", "presence_penalty", "min_p"}) {
    if (read_number(body, key, 0) != 0) refuse(key, "only 0 is");
  }
  if (read_number(body, "repetition_penalty", 1) != 1) refuse("repetition_penalty", "only 1 is");
  if (read_integer(body, "min_tokens").value_or(0) != 0) refuse("min_tokens", "only 0 is");
  for (const char* key : {"echo", "continue_final_message", "include_stop_str_in_output"}) {
    if (read_bool(body, key)) refuse(key, "only false is");
  }
  for (const char* key : {"logit_bias", "tools", "functions", "stop_token_ids"}) {
    const RawJson* value = member(body, key);
    if (value != nullptr && !value->empty()) refuse(key, "leave it out");
  }
  for (const char* key : {"top_logprobs", "prompt_logprobs", "structured_outputs"}) {
    if (member(body, key) != nullptr) refuse(key, "leave it out");
  }
  if (const RawJson* value = member(body, "logprobs"); value != nullptr) {
    if (!(chat && *value == false)) refuse("logprobs", "leave it out");
  }
  if (const RawJson* value = member(body, "suffix"); value != nullptr) {
    if (*value != "") refuse("suffix", "leave it out");
  }
  if (const RawJson* value = member(body, "response_format"); value != nullptr) {
    if (value->value("type", RawJson()) != "text") {
      refuse("response_format", "only {\"type\":\"text\"} is");
    }
  }
}

std::string read_content(const RawJson& message, const std::string& place) {
  const RawJson* content = member(message, "content");
  if (content == nullptr) return {};
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) {
    bad_request(place + ".content must be a string or a list of parts", place);
  }
  std::string text;
  for (const RawJson& part : *content) {
    const RawJson* type = part.is_object() ? member(part, "type") : nullptr;
    const RawJson* words = part.is_object() ? member(part, "text") : nullptr;
    if (type == nullptr || *type != "text" || words == nullptr || !words->is_string()) {
      bad_request(place + ".content: only parts of type \"text\" are supported", place,
                  "unsupported_parameter");
    }
    text += words->get<std::string>();
  }
  return text;
}

void read_messages(const RawJson& body, GenerationRequest& out) {
  const RawJson* messages = member(body, "messages");
  if (messages == nullptr || !messages->is_array() || messages->empty()) {
    bad_request("messages must be a list with at least one message", "messages");
  }
  for (std::size_t i = 0; i < messages->size(); ++i) {
    const RawJson& message = (*messages)[i];
    const std::string place = "messages[" + std::to_string(i) + "]";
    const RawJson* role = message.is_object() ? member(message, "role") : nullptr;
    if (role == nullptr || !role->is_string()) {
      bad_request(place + " must be an object with a role", place);
    }
    out.messages.push_back({role->get<std::string>(), read_content(message, place)});
  }
}

void read_prompt(const RawJson& body, GenerationRequest& out) {
  const RawJson* prompt = member(body, "prompt");
  if (prompt == nullptr) bad_request("prompt is missing", "prompt");
  if (prompt->is_array() && prompt->size() == 1 && !(*prompt)[0].is_number()) {
    prompt = &(*prompt)[0];  // a batch of one
  }
  if (prompt->is_string()) {
    out.prompt = prompt->get<std::string>();
    return;
  }
  if (!prompt->is_array() || prompt->empty()) {
    bad_request("prompt must be a string or a list of token ids, not empty", "prompt");
  }
  if (!(*prompt)[0].is_number()) {
    bad_request("several prompts in one request are not supported yet: send one each", "prompt",
                "unsupported_parameter");
  }
  out.prompt_tokens.reserve(prompt->size());
  for (const RawJson& id : *prompt) {
    if (!id.is_number_integer() || id.get<std::int64_t>() < 0 ||
        id.get<std::int64_t>() > INT32_MAX) {
      bad_request("prompt: a token id must be a whole number, at least 0", "prompt");
    }
    out.prompt_tokens.push_back(id.get<engine::TokenId>());
  }
}

void read_stop(const RawJson& body, GenerationRequest& out) {
  const RawJson* stop = member(body, "stop");
  if (stop == nullptr) return;
  if (stop->is_string()) {
    out.stop.push_back(stop->get<std::string>());
  } else if (stop->is_array()) {
    for (const RawJson& one : *stop) {
      if (!one.is_string()) bad_request("stop must be a string or a list of strings", "stop");
      out.stop.push_back(one.get<std::string>());
    }
  } else {
    bad_request("stop must be a string or a list of strings", "stop");
  }
  if (out.stop.size() > 16) bad_request("at most 16 stop strings", "stop");
  for (const std::string& one : out.stop) {
    if (one.empty()) bad_request("a stop string must not be empty", "stop");
    if (one.size() > 1024) bad_request("a stop string must not be over 1024 bytes", "stop");
  }
}

void read_sampling(const RawJson& body, GenerationRequest& out) {
  out.sampling.temperature = read_number(body, "temperature", 1);
  if (!(out.sampling.temperature >= 0 && out.sampling.temperature <= 2)) {
    bad_request("temperature must be from 0 to 2", "temperature");
  }
  out.sampling.top_p = read_number(body, "top_p", 1);
  if (!(out.sampling.top_p > 0 && out.sampling.top_p <= 1)) {
    bad_request("top_p must be over 0 and at most 1", "top_p");
  }
  out.sampling.top_k = read_integer(body, "top_k").value_or(0);
  if (out.sampling.top_k == -1) out.sampling.top_k = 0;  // vLLM's "all"
  if (out.sampling.top_k < 0) bad_request("top_k must be at least 0 (0 or -1: all)", "top_k");
  if (const auto seed = read_integer(body, "seed")) out.seed = static_cast<std::uint64_t>(*seed);
  out.ignore_eos = read_bool(body, "ignore_eos");
}

}  // namespace

std::string ApiError::body() const {
  return "{\"error\":{\"message\":" + json_quote(message) + ",\"type\":" + json_quote(type) +
         ",\"param\":" + (param.empty() ? "null" : json_quote(param)) +
         ",\"code\":" + (code.empty() ? std::to_string(status) : json_quote(code)) + "}}";
}

GenerationRequest parse_generation_request(std::string_view body, bool chat) {
  RawJson json;
  try {
    json = RawJson::parse(body);
  } catch (const RawJson::parse_error& error) {
    bad_request("the body is not JSON: " + std::string(error.what()));
  }
  if (!json.is_object()) bad_request("the body must be a JSON object, not a " + kind_of(json));
  GenerationRequest out;
  out.chat = chat;
  if (const RawJson* model = member(json, "model"); model != nullptr) {
    if (!model->is_string()) bad_request("model must be a string", "model");
    out.model = model->get<std::string>();
  }
  chat ? read_messages(json, out) : read_prompt(json, out);
  refuse_unsupported(json, chat);
  out.max_tokens = read_integer(json, "max_tokens");
  if (const auto newer = read_integer(json, "max_completion_tokens")) out.max_tokens = newer;
  if (out.max_tokens && *out.max_tokens < 1) {
    bad_request("max_tokens must be at least 1", "max_tokens");
  }
  read_sampling(json, out);
  read_stop(json, out);
  out.stream = read_bool(json, "stream");
  if (const RawJson* options = member(json, "stream_options"); options != nullptr) {
    if (!options->is_object()) bad_request("stream_options must be an object", "stream_options");
    if (!out.stream) bad_request("stream_options only go with \"stream\": true", "stream_options");
    out.include_usage = read_bool(*options, "include_usage");
  }
  const auto priority = read_integer(json, "priority").value_or(0);
  if (priority < INT32_MIN || priority > INT32_MAX)
    bad_request("priority is too large", "priority");
  out.priority = static_cast<std::int32_t>(priority);
  return out;
}

std::string json_quote(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

namespace {

std::string usage_json(const Usage& usage) {
  return "{\"prompt_tokens\":" + std::to_string(usage.prompt_tokens) +
         ",\"completion_tokens\":" + std::to_string(usage.completion_tokens) +
         ",\"total_tokens\":" + std::to_string(usage.prompt_tokens + usage.completion_tokens) +
         ",\"prompt_tokens_details\":{\"cached_tokens\":" + std::to_string(usage.cached_tokens) +
         "}}";
}

}  // namespace

AnswerWriter::AnswerWriter(const GenerationRequest& request, std::string id, std::int64_t created,
                           std::string model)
    : chat_(request.chat), include_usage_(request.include_usage), id_(std::move(id)) {
  const auto head = [&](const char* object) {
    return "\"id\":" + json_quote(id_) + ",\"object\":\"" + object +
           "\",\"created\":" + std::to_string(created) + ",\"model\":" + json_quote(model);
  };
  head_ = head(chat_ ? "chat.completion" : "text_completion");
  chunk_head_ = head(chat_ ? "chat.completion.chunk" : "text_completion");
}

std::string AnswerWriter::event(std::string_view choices, const Usage* usage) const {
  std::string out = "data: {" + chunk_head_ + ",\"choices\":[";
  out += choices;
  out += "]";
  if (include_usage_) {
    out += ",\"usage\":" + (usage != nullptr ? usage_json(*usage) : std::string("null"));
  }
  return out + "}\n\n";
}

std::string AnswerWriter::role_event() const {
  if (!chat_) return {};
  return event(
      "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
      "\"finish_reason\":null}",
      nullptr);
}
std::string AnswerWriter::text_event(std::string_view text) const {
  const std::string words = json_quote(text);
  return event(
      chat_ ? "{\"index\":0,\"delta\":{\"content\":" + words +
                  "},\"logprobs\":null,\"finish_reason\":null}"
            : "{\"index\":0,\"text\":" + words + ",\"logprobs\":null,\"finish_reason\":null}",
      nullptr);
}
std::string AnswerWriter::finish_event(std::string_view finish_reason) const {
  const std::string reason = json_quote(finish_reason);
  return event((chat_ ? "{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":"
                      : "{\"index\":0,\"text\":\"\",\"logprobs\":null,\"finish_reason\":") +
                   reason + "}",
               nullptr);
}
std::string AnswerWriter::usage_event(const Usage& usage) const {
  return include_usage_ ? event("", &usage) : std::string();
}
std::string AnswerWriter::error_event(const ApiError& error) {
  return "data: " + error.body() + "\n\n";
}

std::string AnswerWriter::whole(std::string_view text, std::string_view finish_reason,
                                const Usage& usage) const {
  const std::string words = json_quote(text);
  return "{" + head_ + ",\"choices\":[{\"index\":0," +
         (chat_ ? "\"message\":{\"role\":\"assistant\",\"content\":" + words + "}"
                : "\"text\":" + words) +
         ",\"logprobs\":null,\"finish_reason\":" + json_quote(finish_reason) +
         "}],\"usage\":" + usage_json(usage) + "}";
}

}  // namespace orrery::serve
