// The list of commands, by task.
#include "tools/orrery/command.h"

namespace orrery::cli {

// One a file of this folder.
std::function<int()> setup_calibrate(CLI::App& app, Globals& globals);
std::function<int()> setup_catalog(CLI::App& app, Globals& globals);
std::function<int()> setup_plan(CLI::App& app, Globals& globals);
std::function<int()> setup_trace_convert(CLI::App& app, Globals& globals);
std::function<int()> setup_trace_inspect(CLI::App& app, Globals& globals);
std::function<int()> setup_trace_synth(CLI::App& app, Globals& globals);
std::function<int()> setup_simulate(CLI::App& app, Globals& globals);
std::function<int()> setup_whatif(CLI::App& app, Globals& globals);

// Defined whole in the file of their name.
extern const Command kDeployCommand, kJournalDumpCommand, kJournalVerifyCommand, kReplayCommand,
    kServeCommand, kStatusCommand, kStopCommand, kWorkerCommand;

const std::vector<Command>& commands() {
  static const std::vector<Command> list = {
      {"Traces",
       "trace inspect",
       "what a trace is like: rates, lengths, prefix sharing, bursts, and what was odd",
       {"orrery trace inspect scenarios/traces/sample.jsonl",
        "orrery trace inspect scenarios/traces/sample.jsonl --slice 0:30 --json"},
       setup_trace_inspect},
      {"Traces",
       "trace convert",
       "another format or another clock; says what was lost",
       {"orrery trace convert scenarios/traces/sample.jsonl -o /tmp/sample-azure.csv --to azure",
        "orrery trace convert scenarios/traces/sample.jsonl -o /tmp/fast.jsonl.zst --speed 4"},
       setup_trace_convert},
      {"Traces",
       "trace synth",
       "a seeded synthetic trace: arrivals, lengths, sessions, shared prefixes",
       {"orrery trace synth scenarios/synth/sample.json -o /tmp/synthetic.jsonl",
        "orrery trace synth scenarios/synth/day.json -o /tmp/day.jsonl.zst --seed 7"},
       setup_trace_synth},
      {"Twin",
       "simulate",
       "run a scenario in the twin: latency, throughput, goodput and cost of a fleet under a load",
       {"orrery simulate scenarios/whatif/llama8b-l4-vs-h100.json",
        "orrery simulate scenarios/whatif/llama8b-l4-vs-h100.json --variant '1 x H100' -o run "
        "--journal"},
       setup_simulate},
      {"Twin",
       "whatif",
       "compare a scenario's variants, or several scenarios, side by side",
       {"orrery whatif scenarios/whatif/llama8b-l4-vs-h100.json",
        "orrery whatif scenarios/whatif/llama8b-l4-vs-h100.json --json --seed 2"},
       setup_whatif},
      {"Check",
       "catalog",
       "what is known of GPUs, instances, models and engine profiles, with sources and dates",
       {"orrery catalog instances g6", "orrery catalog models llama-3.1-8b"},
       setup_catalog},
      {"Plan",
       "plan",
       "size a fleet under percentile targets at least cost, with the reason for every rejected "
       "type",
       {"orrery plan scenarios/requests/chat-8b.json -o plan.json",
        "orrery plan scenarios/requests/chat-8b.json --json"},
       setup_plan},
      {"Plan",
       "calibrate",
       "measure this machine's step times and fit the profile of cpu-local",
       {"orrery calibrate --local", "orrery calibrate --local --quick -o cpu.json"},
       setup_calibrate},
      kServeCommand,
      kDeployCommand,
      kStatusCommand,
      kStopCommand,
      kReplayCommand,
      kJournalVerifyCommand,
      kJournalDumpCommand,
      kWorkerCommand,
  };
  return list;
}

}  // namespace orrery::cli
