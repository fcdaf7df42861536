// JSON Schema (draft 7) over a document with places: what valijson finds wrong becomes an
// InputError with file, line and field; a key the schema does not know suggests the nearest it
// does. Here and not in base, because the library draws in streams and locales.
#pragma once
#include "runtime/base/json.h"

namespace orrery::host {

// Throws InputError for the first violation.
void check_schema(const JsonDocument& document, const Json& schema);

}  // namespace orrery::host
