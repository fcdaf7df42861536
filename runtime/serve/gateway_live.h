// What the gateway's two files share: one request being answered, and how refusals are said.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/engine/engine_core.h"
#include "runtime/serve/gateway.h"
#include "runtime/serve/http/stop_filter.h"

namespace orrery::serve {

ApiError unavailable(const std::string& message);  // 503
ApiError error_of_reject(policy::RejectReason reason, std::int64_t needed, std::int64_t available);
HttpResponse error_response(const ApiError& error);

struct Gateway::Live {
  GenerationRequest api;
  engine::EngineRequest engine;
  std::vector<BlockHash> hashes;
  std::shared_ptr<const engine::Tokenizer> tokenizer;  // outlives the model's removal
  std::string model;
  InstanceId instance;
  std::shared_ptr<GenerationStream> stream;
  std::optional<engine::Detokenizer> detokenizer;
  std::optional<StopFilter> filter;
  std::optional<AnswerWriter> writer;
  Usage usage;
  std::string finish_reason;
  bool ended = false;
  std::chrono::steady_clock::time_point received, last_token;
};

}  // namespace orrery::serve
