// The catalogue as it lies in scenarios/catalog and scenarios/profiles. Owns what it read; look-ups
// ignore case, take a model's hub name as well, and throw InputError that suggests the nearest
// name.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/policy/cost/catalog.h"

namespace orrery::sim {

struct Catalog {
  std::vector<cost::ModelSpec> models;
  std::vector<cost::GpuSpec> gpus;
  std::vector<cost::InstanceType> instances;
  std::vector<cost::EngineProfile> profiles;  // sorted by id

  const cost::ModelSpec& model(const std::string& name) const;
  const cost::GpuSpec& gpu(const std::string& id) const;
  const cost::InstanceType& instance(const std::string& id) const;
  const cost::EngineProfile& profile(const std::string& id) const;
  // The profile named "generic-GPU" (scenarios/profiles/generic-GPU.json). Throws InputError when
  // there is none for this GPU.
  const cost::EngineProfile& default_profile_for(const std::string& gpu_id) const;
  // The GPU as it is in the instance: its share of one, its PCIe lanes, its NVLink if wired.
  cost::GpuSpec gpu_of(const cost::InstanceType& instance) const;
};

// data_dir holds "scenarios" (host::data_dir()). Checks that ids are unique and that every
// instance's and profile's GPU is known. Short source names become the texts they stand for.
Catalog load_catalog(const std::string& data_dir);

}  // namespace orrery::sim
