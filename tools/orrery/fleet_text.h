// What serve, deploy, status and stop say about a fleet.
#pragma once
#include <string>
#include <vector>

#include "runtime/base/json.h"
#include "runtime/deploy/state_store.h"

namespace orrery::cli {

std::string endpoint_of(const deploy::FleetRow& fleet);  // "http://127.0.0.1:8000"
std::string model_name(const std::string& model);        // id as clients name it
void print_workers(const std::vector<deploy::ActualWorker>& workers);
void print_next_steps(const deploy::FleetRow& fleet,
                      const std::vector<deploy::ActualWorker>& workers);
// A model that is not there is said before anything starts: InputError.
void check_models(const std::vector<deploy::DesiredWorker>& workers);
Json workers_json(const std::vector<deploy::ActualWorker>& workers);
Json fleet_json(const deploy::FleetRow& fleet);

}  // namespace orrery::cli
