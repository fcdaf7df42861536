// InputError: bad input from a person. The only exception that crosses module borders.
// Message: "FILE:LINE: FIELD: found X, expected Y". Commands print it and exit with 2.
#pragma once
#include <exception>
#include <string>

namespace orrery {

class InputError : public std::exception {
 public:
  struct Place {
    std::string file;   // file, or where else it came from ("--seed", "POST /v1/completions")
    long line = 0;      // 1-based; 0: unknown or not applicable
    std::string field;  // "fleet[0].replicas"; may be empty
  };
  InputError(Place place, std::string found, std::string expected);
  const char* what() const noexcept override { return message_.c_str(); }
  const Place& place() const { return place_; }
  const std::string& found() const { return found_; }
  const std::string& expected() const { return expected_; }

 private:
  Place place_;
  std::string found_, expected_, message_;
};

// Understood, but this build or this version can't do it: exit code 3. Says what it would need.
class Unsupported : public std::exception {
 public:
  explicit Unsupported(std::string what) : message_(std::move(what)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

}  // namespace orrery
