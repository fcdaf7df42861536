// libFuzzer targets of the trace importers: any bytes give rows in order, or an InputError. One
// executable a format (ORRERY_FUZZ_FORMAT), and one for the detection by content.
// Run: build/tests/fuzz/fuzz_trace_azure -max_len=4096 CORPUS-FOLDER
#include <cstdint>
#include <cstdlib>
#include <string>

#include "runtime/base/errors.h"
#include "tests/traces/text_trace.h"
#include "traces/flat_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace orrery::traces;
  const std::string text(reinterpret_cast<const char*>(data), size);
  FlatJson fast, slow;
  if (fast.scan_fast(text)) {
    if (!slow.scan_slow(text) || fast.fields().size() != slow.fields().size() ||
        fast.ids() != slow.ids())
      std::abort();
  }
  ReadOptions options;
  options.format = ORRERY_FUZZ_FORMAT;
  options.tolerate = true;
  options.sort_window = 8;
  try {
    const ReadResult r = read_text(text, options);
    for (std::size_t i = 1; i < r.rows.size(); ++i)
      if (r.rows[i].arrival < r.rows[i - 1].arrival) std::abort();
  } catch (const orrery::InputError&) {
  }
  return 0;
}
