// orrery trace synth SPEC -o OUT: a seeded synthetic trace.
#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>

#include "runtime/base/errors.h"
#include "runtime/host/files.h"
#include "runtime/host/json_schema.h"
#include "tools/orrery/cli_support.h"
#include "tools/orrery/command.h"
#include "tools/orrery/trace_options.h"
#include "tools/orrery/trace_output.h"
#include "traces/characterise.h"
#include "traces/synth.h"
#include "traces/writer.h"

namespace orrery::cli {
namespace {

struct SynthArguments {
  std::string spec, out, to = "orrery";
  std::int64_t requests = 0;
};

traces::Characterisation synth(const SynthArguments& a, const Globals& globals) {
  // The reader goes first: it says more of what it expects than the schema does.
  traces::SynthSpec spec = traces::read_synth_spec(JsonView(host::read_json(a.spec)));
  (void)host::read_checked_json(a.spec, "synth");
  if (a.requests < 0)
    throw InputError({"--requests", 0, ""}, std::to_string(a.requests), "a number above 0");
  if (a.requests > 0) spec.requests = a.requests;
  const auto source = traces::open_synth(spec, globals.seed);
  OutputFile out(a.out);
  const auto writer = traces::make_writer(a.to, out.open());
  traces::Characteriser seen;
  traces::TraceRequest request;
  Progress progress(globals, "writing " + a.out, spec.requests.value_or(0), "requests");
  while (source->next(request)) {
    if ((request.row & 4095) == 0) progress.update(request.row);
    seen.add(request);
    writer->write(request);
  }
  if (writer->rows() == 0)
    throw InputError({a.spec, 0, "duration_s"}, "no arrival within it", "a longer time");
  writer->close();
  out.keep();
  return seen.finish(true);
}

}  // namespace

std::function<int()> setup_trace_synth(CLI::App& app, Globals& globals) {
  auto a = std::make_shared<SynthArguments>();
  app.add_option("SPEC", a->spec, "what to make (schema orrery.synth.v1)")->required();
  app.add_option("-o,--out", a->out, "file to write; .gz and .zst compress; - is standard output")
      ->required();
  app.add_option("--requests", a->requests, "this many, whatever the spec says");
  app.add_option("--to", a->to, "orrery, mooncake, azure, burstgpt or openai-batch")
      ->capture_default_str();
  return [a, &globals] {
    if (globals.json && a->out == "-")
      throw InputError({"--json", 0, ""}, "-o -", "a file, since both would write to stdout");
    const traces::Characterisation c = synth(*a, globals);
    if (globals.json) {
      Json out;
      out["spec"] = a->spec;
      out["out"] = a->out;
      out["seed"] = globals.seed;
      const Json figures = c.to_json();
      for (const auto& [key, value] : figures.items()) out[key] = value;
      print_json(out);
      return static_cast<int>(kDone);
    }
    std::fprintf(
        a->out == "-" ? stderr : stdout,
        "%s: %s requests over %s (%s/s), input mean %s, output mean %s tokens, seed %llu\n",
        a->out.c_str(), format_count(c.requests).c_str(), format_span(to_seconds(c.span())).c_str(),
        format_number(c.mean_rate()).c_str(), format_number(c.input_tokens.mean()).c_str(),
        format_number(c.output_tokens.mean()).c_str(),
        static_cast<unsigned long long>(globals.seed));
    return static_cast<int>(kDone);
  };
}

}  // namespace orrery::cli
