// orrery: one binary, one command a file.
#include <cstdio>

#include "tools/orrery/command.h"

int main() {
  std::printf("%zu commands\n", orrery::cli::commands().size());
  return 3;
}
