#include "runtime/policy/request.h"

namespace orrery::policy {

std::string_view name_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
  }
  return "unknown";
}

std::string_view name_of(RejectReason reason) {
  switch (reason) {
    case RejectReason::kNone:
      return "none";
    case RejectReason::kNeverFits:
      return "never_fits";
    case RejectReason::kQueueFull:
      return "queue_full";
    case RejectReason::kDraining:
      return "draining";
    case RejectReason::kDuplicateId:
      return "duplicate_id";
    case RejectReason::kEmptyPrompt:
      return "empty_prompt";
    case RejectReason::kNoInstance:
      return "no_instance";
  }
  return "unknown";
}

}  // namespace orrery::policy
