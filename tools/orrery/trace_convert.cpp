// orrery trace convert FILE -o OUT: another format, another clock; says what got lost on the way.
#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>

#include "runtime/base/errors.h"
#include "tools/orrery/cli_support.h"
#include "tools/orrery/command.h"
#include "tools/orrery/trace_options.h"
#include "tools/orrery/trace_output.h"
#include "traces/characterise.h"
#include "traces/tick_watch.h"
#include "traces/writer.h"

namespace orrery::cli {
namespace {

struct ConvertArguments {
  ReadArguments read;
  std::string out, to = "orrery", slice, speed, cap_gap, spread;
};

// Counts what passes, on the way to the writer.
struct Converted {
  traces::ReadReport report;
  traces::Characterisation before, after;
  traces::TransformReport changes;
  std::vector<traces::Loss> losses;
  std::int64_t written = 0;
};

class Tap : public traces::RequestSource {
 public:
  Tap(traces::TraceFile& in, traces::Characteriser& seen) : in_(in), seen_(seen) {}
  bool next(traces::TraceRequest& r) override {
    if (!in_.next(r)) return false;
    seen_.add(r);
    return true;
  }

 private:
  traces::TraceFile& in_;
  traces::Characteriser& seen_;
};

// The trace's own tick, from a first pass over the file.
Duration tick_of(const ReadArguments& read) {
  const auto file = traces::open_trace(read.file, read.options);
  traces::TickWatch ticks;
  traces::TraceRequest request;
  while (file->next(request)) ticks.add(request.arrival.value(), request);
  ticks.finish();
  if (ticks.tick().value() == 0)
    throw InputError({"--spread", 0, ""}, "a trace with one timestamp only",
                     "--spread SECONDS, since the trace does not show its tick");
  return ticks.tick();
}

traces::TransformOptions transform_options(const ConvertArguments& a) {
  traces::TransformOptions t;
  if (!a.slice.empty()) t.slice = traces::parse_slice("--slice", a.slice);
  if (!a.cap_gap.empty()) t.cap_gap = traces::parse_duration("--cap-gap", a.cap_gap);
  if (!a.speed.empty()) t.speed = traces::parse_ratio("--speed", a.speed);
  if (a.spread == "auto")
    t.spread = tick_of(a.read);
  else if (!a.spread.empty())
    t.spread = traces::parse_duration("--spread", a.spread);
  return t;
}

Converted convert(const ConvertArguments& a, const Globals& globals) {
  const traces::TransformOptions options = transform_options(a);
  const auto file = traces::open_trace(a.read.file, a.read.options);
  Converted result;
  traces::Characteriser before, after;
  const auto source =
      traces::transform(std::make_unique<Tap>(*file, before), options, result.changes);
  traces::TraceRequest request;
  bool more = source->next(request);
  traces::WriteOptions write;
  // A slice or another speed makes a trace whose times are no longer those of the wall clock.
  if (!options.any()) write.start = file->report().start;
  OutputFile out(a.out);
  const auto writer = traces::make_writer(a.to, out.open(), write);
  Progress progress(globals, "writing " + a.out, 0, "requests");
  for (; more; more = source->next(request)) {
    if ((writer->rows() & 4095) == 0) progress.update(writer->rows());
    after.add(request);
    writer->write(request);
  }
  if (writer->rows() == 0)
    throw InputError({a.read.file, 0, ""}, "no request that could be written",
                     options.slice ? "a slice with requests in it" : "requests that did not fail");
  writer->close();
  out.keep();
  result.report = file->report();
  result.before = before.finish(a.read.unit_given());
  result.after = after.finish(true);
  result.losses = writer->losses();
  result.written = writer->rows();
  return result;
}

void report_json(const ConvertArguments& a, const Converted& r) {
  Json out;
  out["file"] = a.read.file;
  out["format"] = r.report.format;
  out["timestamp_unit"] = r.report.timestamp_unit;
  out["rows"] = r.report.rows;
  out["bad_rows"] = r.report.bad;
  out["out"] = a.out;
  out["to"] = a.to;
  out["written"] = r.written;
  out["span_s"] = to_seconds(r.after.span());
  Json lost = Json::array();
  for (const traces::Loss& l : r.losses) lost.push_back({{"what", l.what}, {"rows", l.rows}});
  out["lost"] = lost;
  out["outside_slice"] = r.changes.outside_slice;
  out["after_cleared"] = r.changes.after_cleared;
  out["spread_rows"] = r.changes.spread_rows;
  out["gaps_capped"] = r.changes.gaps_capped;
  out["idle_removed_share"] = r.changes.idle_removed_share();
  out["warnings"] = r.before.warnings;
  print_json(out);
}

void print_text(std::FILE* to, const ConvertArguments& a, const Converted& r) {
  std::fprintf(to, "%s (%s, %s) -> %s (%s): %s of %s rows, span %s\n", a.read.file.c_str(),
               r.report.format.c_str(), r.report.timestamp_unit.c_str(), a.out.c_str(),
               a.to.c_str(), format_count(r.written).c_str(), format_count(r.report.rows).c_str(),
               format_span(to_seconds(r.after.span())).c_str());
  if (r.report.bad > 0)
    std::fprintf(to, "  %s bad rows left out (orrery trace inspect shows them)\n",
                 format_count(r.report.bad).c_str());
  const traces::TransformReport& c = r.changes;
  if (c.outside_slice > 0)
    std::fprintf(to, "  %s rows outside the slice\n", format_count(c.outside_slice).c_str());
  if (c.after_cleared > 0)
    std::fprintf(to, "  %s rows no longer wait: what they waited for is outside the slice\n",
                 format_count(c.after_cleared).c_str());
  if (c.spread_rows > 0)
    std::fprintf(to, "  %s rows spread over their ticks\n", format_count(c.spread_rows).c_str());
  if (c.gaps_capped > 0)
    std::fprintf(to, "  %s gaps capped: compressed %.1f %% of idle time\n",
                 format_count(c.gaps_capped).c_str(), 100 * c.idle_removed_share());
  if (c.gaps_capped > 1 && c.gaps_capped + 1 >= c.gaps)
    std::fprintf(to, "  warning: every gap is above the cap, so arrivals are evenly spaced now\n");
  for (const traces::Loss& l : r.losses)
    std::fprintf(to, "  lost: %s (%s rows)\n", l.what.c_str(), format_count(l.rows).c_str());
  for (const std::string& w : r.before.warnings) std::fprintf(to, "  warning: %s\n", w.c_str());
}

}  // namespace

std::function<int()> setup_trace_convert(CLI::App& app, Globals& globals) {
  auto a = std::make_shared<ConvertArguments>();
  add_read_options(app, a->read);
  app.add_option("-o,--out", a->out, "file to write; .gz and .zst compress; - is standard output")
      ->required();
  app.add_option("--to", a->to, "orrery, mooncake, azure, burstgpt or openai-batch")
      ->capture_default_str();
  app.add_option("--slice", a->slice, "only arrivals in START:END, seconds of the trace");
  app.add_option("--spread", a->spread,
                 "lay rows of one timestamp out over SECONDS; auto: the trace's own tick")
      ->expected(0, 1)
      ->default_str("auto");
  app.add_option("--cap-gap", a->cap_gap,
                 "shorten idle gaps to SECONDS of the trace (before --speed)");
  app.add_option("--speed", a->speed, "10: ten times as fast; 0.5: half as fast");
  return [a, &globals] {
    if (globals.json && a->out == "-")
      throw InputError({"--json", 0, ""}, "-o -", "a file, since both would write to stdout");
    const Converted result = convert(*a, globals);
    globals.json ? report_json(*a, result)
                 : print_text(a->out == "-" ? stderr : stdout, *a, result);
    return static_cast<int>(kDone);
  };
}

}  // namespace orrery::cli
