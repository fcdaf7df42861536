// orrery journal verify, orrery journal dump.
#include "runtime/policy/journal.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/hex.h"
#include "runtime/deploy/verify_run.h"
#include "runtime/host/journal_file.h"
#include "tools/orrery/cli_support.h"
#include "tools/orrery/command.h"

namespace orrery::cli {
namespace {

Json file_json(const deploy::FileVerdict& file) {
  return {{"file", file.file},
          {"process", file.slot},
          {"ok", file.ok},
          {"records", file.records},
          {"bad_record", file.ok ? Json(nullptr) : Json(file.bad_record)},
          {"cut", file.cut},
          {"detail", file.detail},
          {"hash", hex(file.hash)}};
}

std::string file_line(const deploy::FileVerdict& file) {
  if (!file.ok) {
    const std::string place = file.file + ": record " + std::to_string(file.bad_record) + ": ";
    // A record that cannot be read names its place itself.
    const bool named = file.detail.starts_with(place);
    return styled(Style::kBad, place) + (named ? file.detail.substr(place.size()) : file.detail);
  }
  return file.file + (file.slot.empty() ? "" : " (" + file.slot + ")") + ": " +
         format_count(static_cast<std::int64_t>(file.records)) + " records taken again, hash " +
         hex(file.hash) +
         (file.cut ? "; its end is cut, as of a process that was killed or still runs" : "");
}

int verify_folder(const std::string& folder, bool json) {
  const deploy::RunVerdict run = deploy::verify_run(folder);
  if (json) {
    Json files = Json::array();
    for (const auto& file : run.files) files.push_back(file_json(file));
    print_json({{"ok", run.ok()},
                {"running", run.running},
                {"placements", run.placements},
                {"confirmed", run.confirmed},
                {"unconfirmed", run.unconfirmed},
                {"problems", run.problems},
                {"files", files}});
    return run.ok() ? kDone : kAnswerIsNo;
  }
  for (const auto& file : run.files) print_line("  " + file_line(file));
  print_line("  " + format_count(run.placements) + " placements, " + format_count(run.confirmed) +
             " with their one submit" +
             (run.unconfirmed > 0
                  ? ", " + format_count(run.unconfirmed) + " whose worker was killed or still runs"
                  : std::string()));
  for (const std::string& problem : run.problems) print_line("  " + styled(Style::kBad, problem));
  print_line(run.ok() ? styled(Style::kGood, "verified: every decision came out the same")
                      : styled(Style::kBad, "not verified"));
  return run.ok() ? kDone : kAnswerIsNo;
}

int verify(const std::string& path, const Globals& globals) {
  if (std::filesystem::is_directory(path)) return verify_folder(path, globals.json);
  const deploy::FileVerdict file = deploy::verify_file(path);
  if (globals.json) {
    print_json(file_json(file));
  } else {
    print_line(file_line(file));
    print_line(file.ok ? styled(Style::kGood, "verified: every decision came out the same")
                       : styled(Style::kBad, "not verified"));
  }
  return file.ok ? kDone : kAnswerIsNo;
}

std::function<int()> setup_verify(CLI::App& app, Globals& globals) {
  auto path = std::make_shared<std::string>();
  app.add_option("path", *path, "A journal file, or the folder of a run")->required();
  return [path, &globals] { return verify(*path, globals); };
}

int dump(const std::string& path, std::int64_t most, const Globals& globals) {
  if (most < 0)
    throw InputError({"--records", 0, ""}, std::to_string(most), "a whole number from 0");
  host::JournalFileReader reader(path);
  Json list = Json::array();
  for (std::int64_t i = 0; i < most; ++i) {
    const auto record = reader.next();
    if (!record) break;
    const std::string name(policy::name_of(static_cast<policy::RecordKind>(record->kind)));
    if (globals.json) {
      list.push_back({{"record", reader.record_number()},
                      {"kind", name},
                      {"words", record->words},
                      {"hash", hex(reader.hash())}});
      continue;
    }
    std::string line = std::to_string(reader.record_number()) + "  " + name + " ";
    for (const std::uint64_t word : record->words) line += " " + std::to_string(word);
    print_line(line);
  }
  if (globals.json) print_json(list);
  return kDone;
}

std::function<int()> setup_dump(CLI::App& app, Globals& globals) {
  struct Options {
    std::string path;
    std::int64_t most = INT64_MAX;
  };
  auto options = std::make_shared<Options>();
  app.add_option("file", options->path, "A journal file")->required();
  app.add_option("--records", options->most, "At most this many");
  return [options, &globals] { return dump(options->path, options->most, globals); };
}

}  // namespace

extern const Command kJournalVerifyCommand, kJournalDumpCommand;
const Command kJournalVerifyCommand = {
    "Check",
    "journal verify",
    "take every decision of a journal again with fresh policy objects",
    {"orrery journal verify RUN-DIR", "orrery journal verify RUN-DIR/gateway.journal"},
    setup_verify};
const Command kJournalDumpCommand = {
    "Check",
    "journal dump",
    "the records of a journal, one a line",
    {"orrery journal dump RUN-DIR/gateway.journal",
     "orrery journal dump RUN-DIR/worker-1.journal --records 20 --json"},
    setup_dump};

}  // namespace orrery::cli
