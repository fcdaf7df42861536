#include "tools/orrery/fleet_text.h"

#include <set>
#include <string>

#include "runtime/engine/model.h"
#include "runtime/host/process.h"
#include "tools/orrery/cli_support.h"

namespace orrery::cli {

std::string endpoint_of(const deploy::FleetRow& fleet) {
  const bool any = fleet.host == "0.0.0.0" || fleet.host == "::";
  const std::string host = any ? "127.0.0.1" : fleet.host;
  return "http://" + (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" +
         std::to_string(fleet.port);
}

std::string model_name(const std::string& model) {
  return model == "embedded" ? "orrery-embedded" : model.substr(model.rfind('/') + 1);
}

void check_models(const std::vector<deploy::DesiredWorker>& workers) {
  std::set<std::string> models;
  for (const deploy::DesiredWorker& worker : workers)
    if (models.insert(worker.model).second) (void)engine::load_card(worker.model);
}

void print_workers(const std::vector<deploy::ActualWorker>& workers) {
  using Align = Table::Align;
  Table table({{"worker", Align::kLeft},
               {"state", Align::kLeft},
               {"pid", Align::kRight},
               {"model", Align::kLeft},
               {"running", Align::kRight},
               {"waiting", Align::kRight},
               {"up", Align::kRight},
               {"restarts", Align::kRight},
               {"address", Align::kLeft}});
  const double now = host::wall_clock_seconds();
  for (const deploy::ActualWorker& w : workers) {
    const Style style = w.state == "ready"    ? Style::kGood
                        : w.state == "failed" ? Style::kBad
                                              : Style::kWarn;
    table.add({w.slot, styled(style, w.state), std::to_string(w.pid), model_name(w.model),
               std::to_string(w.running), std::to_string(w.waiting),
               format_span(now - w.started_at), std::to_string(w.restarts), w.address});
  }
  table.print(2);
}

void print_next_steps(const deploy::FleetRow& fleet,
                      const std::vector<deploy::ActualWorker>& workers) {
  const std::string url = endpoint_of(fleet);
  const std::string model = workers.empty() ? "MODEL" : model_name(workers.front().model);
  print_line();
  print_line(styled(Style::kBold, "Try:"));
  print_line("  curl -N " + url + "/v1/chat/completions -H 'Content-Type: application/json' \\");
  print_line("    -d '{\"model\":\"" + model +
             "\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}],\"stream\":true,"
             "\"max_tokens\":32}'");
  print_line("  orrery replay scenarios/traces/sample.jsonl --url " + url);
  print_line("  orrery status");
}

Json workers_json(const std::vector<deploy::ActualWorker>& workers) {
  Json list = Json::array();
  const double now = host::wall_clock_seconds();
  for (const deploy::ActualWorker& w : workers) {
    list.push_back({{"worker", w.slot},
                    {"instance", w.instance},
                    {"state", w.state},
                    {"pid", w.pid},
                    {"model", model_name(w.model)},
                    {"running", w.running},
                    {"waiting", w.waiting},
                    {"uptime_s", now - w.started_at},
                    {"restarts", w.restarts},
                    {"address", w.address},
                    {"journal", w.journal},
                    {"log", w.log},
                    {"message", w.message}});
  }
  return list;
}

Json fleet_json(const deploy::FleetRow& fleet) {
  return {{"state", fleet.state},
          {"pid", fleet.pid},
          {"endpoint", endpoint_of(fleet)},
          {"host", fleet.host},
          {"port", fleet.port},
          {"uptime_s", host::wall_clock_seconds() - fleet.started_at},
          {"run_dir", fleet.run_dir},
          {"log", fleet.log},
          {"message", fleet.message}};
}

}  // namespace orrery::cli
