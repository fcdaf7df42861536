// Verification of a live run's journals: each by taking its decisions again, and for a fleet's
// folder also that each placement of the gateway has its one submit at that worker.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace orrery::deploy {

struct FileVerdict {
  std::string file;              // name inside the folder, or the path
  std::string slot;              // of a worker
  bool ok = false, cut = false;  // cut: the last record is not whole, and that was to be expected
  std::uint64_t records = 0, bad_record = 0, hash = 0;
  std::string detail;  // what differs
};

struct RunVerdict {
  std::vector<FileVerdict> files;
  std::int64_t placements = 0, confirmed = 0;
  // Placements whose worker was killed, or still runs: its journal ends before them.
  std::int64_t unconfirmed = 0;
  std::vector<std::string> problems;  // placements and submits that do not match
  bool running = false;               // the folder's fleet had not ended
  bool ok() const;
};

// A journal file on its own: a record cut short is a problem.
FileVerdict verify_file(const std::string& path);
// A run folder (with fleet.json). Throws InputError when it is none.
RunVerdict verify_run(const std::string& folder);

}  // namespace orrery::deploy
