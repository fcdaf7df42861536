// The catalogue that ships with the project, read once for all tests.
#pragma once
#include "sim/catalog_files.h"

namespace orrery::cost {

inline const sim::Catalog& shipped() {
  static const sim::Catalog catalog = sim::load_catalog(ORRERY_SOURCE_ROOT);
  return catalog;
}

}  // namespace orrery::cost
