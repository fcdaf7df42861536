// The brain's journal: kinds of record, and verification by taking every decision again.
//
// Canonical form of an instance's journal. One kRun record covers consecutive repetitions of one
// composition with no other input between them: whether they came as one macro-step or as single
// steps cannot be seen. A step still out when another input arrives splits the run: its decision
// (allocation, eviction) is in the record before, its completion in the one after.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/journal.h"
#include "runtime/policy/instance.h"
#include "runtime/policy/router/router.h"

namespace orrery::policy {

enum class RecordKind : std::uint32_t {
  kInstanceHeader = 1,  // version, settings
  kSubmit = 2,          // input: request, and the answer
  kCancel = 3,          // input, and the answer
  kRun = 4,  // composition, repetitions completed, finishes, hashes given, digest of decisions
  kDrain = 5,
  kRouterHeader = 16,  // version, settings
  kInstanceAdded = 17,
  kInstanceDraining = 18,
  kInstanceRemoved = 19,
  kRoute = 20,  // input: request; decision: instance or reason
  kRelease = 21,
};

struct VerifyResult {
  bool ok = false;
  std::uint64_t records = 0;     // taken again
  std::uint64_t bad_record = 0;  // number of the first that differs, when !ok
  std::string detail;            // what differs
  std::uint64_t hash = 0;        // running hash of the journal made anew
};

// Takes every decision again with fresh policy objects. `next` gives the records in order, nullopt
// at the end. Works for instance and router journals alike (told by the first record).
// kLost: the process was killed or still writes. Then its last run may have ended with an event
// that is not in the file, and cannot end the same way again: it alone is not compared.
enum class JournalEnd : std::uint8_t { kWhole, kLost };
VerifyResult verify_journal(const std::function<std::optional<JournalRecord>()>& next,
                            JournalEnd end = JournalEnd::kWhole);

// For checks across the journals of one fleet. Which request a kSubmit, kCancel, kRoute or kRelease
// record is about, and which instance a kRoute record chose (nullopt: none). Throw InputError for a
// record that is cut short.
std::string_view name_of(RecordKind kind);  // "submit"; "unknown" for a kind that is none
RequestId request_of(const JournalRecord& record);
std::optional<InstanceId> placement_of(const JournalRecord& record);

}  // namespace orrery::policy
