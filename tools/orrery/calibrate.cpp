// orrery calibrate: step-time profiles from measurements. --local measures the CPU executor here;
// the profile is what the planner and the simulator believe of instance type cpu-local.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include <CLI/CLI.hpp>

#include "runtime/base/errors.h"
#include "runtime/engine/calibration.h"
#include "runtime/engine/cpu/cpu_executor.h"
#include "runtime/engine/model.h"
#include "runtime/engine/settings.h"
#include "runtime/host/files.h"
#include "runtime/host/process.h"
#include "tools/orrery/cli_support.h"
#include "tools/orrery/command.h"

namespace orrery::cli {
namespace {

struct Options {
  bool local = false, quick = false;
  std::string log, table;
  std::string output;  // empty: where the planner looks
  std::string model = "embedded";
};

// Above it, others had the processor for so much of the time that caches were theirs too.
constexpr double kBusy = 1.3;

void check_options(const Options& o) {
  if (!o.log.empty())
    throw Unsupported("--log " + o.log +
                      ": fitting a profile to an engine's iteration log needs readers of those "
                      "logs, which this version does not have; --local measures this machine");
  if (!o.table.empty())
    throw Unsupported("--table " + o.table +
                      ": fitting a profile to an operator table needs a reader of such tables, "
                      "which this version does not have; --local measures this machine");
  if (!o.local)
    throw InputError({"orrery calibrate", 0, "--local"}, "no source of measurements",
                     "--local (this machine's CPU executor)");
}

std::string today() {
  const auto now = static_cast<std::time_t>(host::wall_clock_seconds());
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &utc);
  return text;
}

// "AMD EPYC 9B14, cpu (avx512)"
std::string machine(const engine::Executor& executor) {
  std::string name = "unknown processor";
  try {
    const std::string info = host::read_file("/proc/cpuinfo");
    const std::size_t at = info.find("model name");
    const std::size_t colon = at == std::string::npos ? at : info.find(": ", at);
    if (colon != std::string::npos)
      name = info.substr(colon + 2, info.find('\n', colon) - colon - 2);
  } catch (const InputError&) {
    // Not Linux, or hidden: the name is for people only.
  }
  return name + ", " + executor.info().name;
}

// The profile that would be replaced, when it is there, readable and of the same model.
std::optional<cost::MeasuredProfile> previous(const std::string& path, const std::string& model) {
  try {
    const auto p = cost::read_measured_profile(JsonView(host::read_json(path)));
    return p.model == model ? std::optional(p) : std::nullopt;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

Json to_json(const engine::FitError& e) { return {{"median", e.median}, {"p90", e.p90}}; }

std::string text_of(const engine::FitError& e) {
  return "median " + format_percent(e.median) + ", p90 " + format_percent(e.p90);
}

struct Result {
  cost::MeasuredProfile profile;
  engine::CalibrationRun run;
  engine::FitError error, held_out;
  std::optional<engine::FitError> before;
  std::string path;
};

std::string describe(const engine::CalibrationPoint& point) {
  std::string text;
  for (const engine::ShapePart& p : point.parts) {
    text += text.empty() ? "" : " + ";
    if (p.count == 1 && p.samples)
      text += std::to_string(p.sequences) + " decode at " + std::to_string(p.first + 1);
    else
      text += std::to_string(p.sequences) + " prefill of " + std::to_string(p.count) + " after " +
              std::to_string(p.first);
  }
  return text;
}

void print(const Result& r) {
  Table table({{"step"},
               {"measured", Table::Align::kRight},
               {"profile", Table::Align::kRight},
               {"error", Table::Align::kRight}});
  for (const engine::CalibrationPoint& p : r.run.points) {
    const double measured = p.lower_quartile();
    const double predicted = engine::predicted_seconds(r.profile, p.shape);
    const double error = predicted / measured - 1;
    table.add({describe(p), format_ms(measured * 1e3), format_ms(predicted * 1e3),
               (error >= 0 ? "+" : "-") + format_percent(std::fabs(error))});
  }
  table.print();
  const auto us = [](double ps) { return format_number(ps * 1e-6) + " us"; };
  print_line();
  print_facts(
      {{"a step", us(r.profile.fixed_ps)},
       {"a token", "+ " + us(r.profile.per_token_ps)},
       {"a sampled row", "+ " + us(r.profile.per_sampled_ps)},
       {"1,000 decode context", "+ " + us(1e3 * r.profile.per_decode_context_ps)},
       {"1,000 prefill pairs", "+ " + us(1e3 * r.profile.per_prefill_pair_ps)},
       {"error before", r.before ? text_of(*r.before) : "no profile was here"},
       {"error now", text_of(r.error)},
       {"error held out", text_of(r.held_out) + " (each step predicted from the others)"},
       {"measured", r.profile.source + ", wall over processor time " + format_number(r.run.busy)},
       {"machine", r.profile.machine},
       {"written", r.path}});
  if (r.run.busy > kBusy)
    print_line(
        styled(Style::kWarn,
               "The machine was busy: the profile holds for a worker with a core of its own; "
               "measure again when it is quiet."));
}

Json document(const Result& r) {
  Json points = Json::array();
  for (const engine::CalibrationPoint& p : r.run.points)
    points.push_back({{"step", describe(p)},
                      {"tokens", p.shape.tokens},
                      {"sampled", p.shape.sampled},
                      {"decode_context_tokens", p.shape.decode_context},
                      {"prefill_pairs", p.shape.prefill_pairs},
                      {"measured_ms", p.lower_quartile() * 1e3},
                      {"predicted_ms", engine::predicted_seconds(r.profile, p.shape) * 1e3}});
  return {{"schema", "orrery.calibration.v1"},
          {"profile", cost::to_json(r.profile)},
          {"path", r.path},
          {"error_before", r.before ? to_json(*r.before) : Json(nullptr)},
          {"error", to_json(r.error)},
          {"error_held_out", to_json(r.held_out)},
          {"rounds", r.run.rounds},
          {"wall_over_processor_time", r.run.busy},
          {"steps", std::move(points)}};
}

// Runs the steps; nullopt when stopped by a signal.
std::optional<engine::CalibrationRun> measure(engine::Executor& executor, std::int64_t max_running,
                                              const Options& options, const Globals& globals) {
  // The whole command stays within 15 s: making the model and warming up take a second or two.
  const Duration budget = seconds(options.quick ? 3 : 10);
  host::install_stop_signals();
  Progress progress(globals, "measuring steps", 0, "steps");
  engine::CalibrationRun run = engine::measure(
      executor, engine::calibration_grid(executor.info(), max_running, options.quick), budget,
      [&](std::int64_t steps) {
        progress.update(steps);
        return !host::stop_requested();
      });
  if (host::stop_requested()) return std::nullopt;
  return run;
}

cost::MeasuredProfile profile_of(const engine::CalibrationRun& run,
                                 const policy::InstanceSettings& settings,
                                 const engine::Executor& executor, const Options& options) {
  cost::MeasuredProfile p = engine::fit(run.points);
  p.id = "cpu-local", p.model = options.model;
  p.machine = machine(executor);
  p.source = "orrery calibrate --local: " + std::to_string(run.rounds) + " rounds of " +
             std::to_string(run.points.size()) + " steps";
  p.date = today();
  p.kv_blocks = settings.kv_blocks.value(), p.block_tokens = settings.block_tokens.value();
  p.max_batched_tokens = settings.max_batched_tokens.value();
  p.max_running = settings.max_running, p.max_context = settings.max_context.value();
  p.median_error = engine::error_of(p, run.points).median;
  return p;
}

void make_folder_of(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) throw InputError({folder.string(), 0, "-o"}, error.message(), "a writable folder");
}

int run(const Options& options, const Globals& globals) {
  check_options(options);
  Result r;
  r.path = options.output.empty() ? host::state_dir() + "/profiles/cpu-local.json" : options.output;
  const engine::ModelCard card = engine::load_card(options.model);
  make_folder_of(r.path);  // before the work, not after it
  const policy::InstanceSettings settings = engine::default_settings(card.shape);
  engine::CpuExecutorSettings executor_settings;
  executor_settings.block_tokens = settings.block_tokens.value();
  executor_settings.kv_blocks = settings.kv_blocks.value();
  executor_settings.max_batched_tokens = settings.max_batched_tokens.value();
  executor_settings.never_sampled = card.never_sampled;
  const auto executor = engine::make_cpu_executor(engine::load_weights(card), executor_settings);
  std::optional<engine::CalibrationRun> measured =
      measure(*executor, settings.max_running, options, globals);
  if (!measured) {
    std::fprintf(stderr, "orrery calibrate: stopped; %s is as it was\n", r.path.c_str());
    return kAnswerIsNo;
  }
  r.run = std::move(*measured);
  r.profile = profile_of(r.run, settings, *executor, options);
  r.error = engine::error_of(r.profile, r.run.points);
  r.held_out = engine::leave_one_out(r.run.points);
  if (const auto old = previous(r.path, options.model))
    r.before = engine::error_of(*old, r.run.points);
  host::write_file(r.path, cost::to_json(r.profile).dump(2) + "\n");
  if (globals.json)
    print_json(document(r));
  else
    print(r);
  return kDone;
}

}  // namespace

std::function<int()> setup_calibrate(CLI::App& app, Globals& globals) {
  auto options = std::make_shared<Options>();
  app.add_flag("--local", options->local, "Measure this machine's CPU executor (15 s at most)");
  app.add_option("--log", options->log, "Fit to an engine's iteration log");
  app.add_option("--table", options->table, "Fit to a table of operator times");
  app.add_option("-o,--output", options->output,
                 "Where to write the profile (default: where the planner looks)");
  app.add_option("--model", options->model, "embedded, or a folder with a checkpoint");
  app.add_flag("--quick", options->quick, "Fewer steps, 5 s at most");
  return [options, &globals] { return run(*options, globals); };
}

}  // namespace orrery::cli
