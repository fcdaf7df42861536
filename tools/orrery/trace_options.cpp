#include "tools/orrery/trace_options.h"

#include <CLI/CLI.hpp>

namespace orrery::cli {

void add_read_options(CLI::App& app, ReadArguments& a) {
  app.add_option("FILE", a.file, "trace; .gz and .zst are read directly")->required();
  app.add_option("--format", a.options.format,
                 "orrery, mooncake, azure or burstgpt; auto looks at the content")
      ->capture_default_str();
  app.add_option("--time-unit", a.options.time_unit,
                 "of numeric timestamps: s, ms, us or ns; auto is the format's own")
      ->capture_default_str();
  app.add_option("--turns", a.options.turns,
                 "full: a row holds the whole prompt; delta: only the turn's new tokens")
      ->capture_default_str();
  app.add_option("--block-tokens", a.options.block_tokens,
                 "prompt tokens for one of hash_ids, where the file does not say");
  app.add_flag("--tolerate", a.options.tolerate, "go on with more than 1 % bad rows");
}

}  // namespace orrery::cli
