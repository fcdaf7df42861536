// JSON Schema (draft 7) over a document with places: what valijson finds wrong becomes an
// InputError with file, line and field; a key the schema does not know suggests the nearest it
// does. Here and not in base, because the library draws in streams and locales.
#pragma once
#include <memory>
#include <string>

#include "runtime/base/json.h"

namespace orrery::host {

// Throws InputError for the first violation.
void check_schema(const JsonDocument& document, const Json& schema);

// A file of the kind "request", "plan", ... as people write it: first that its "schema" says
// "orrery.KIND.v1" (the keys of another kind of file are not misspelled), then that it agrees with
// scenarios/schema/KIND.v1.json. What a schema cannot say is left to the kind's reader. Throws
// InputError.
std::shared_ptr<const JsonDocument> read_checked_json(const std::string& path,
                                                      const std::string& kind);

}  // namespace orrery::host
