#!/usr/bin/env bash
# Builds Orrery.
# usage: tools/build.sh [BUILD_FOLDER] [MESON OPTIONS…] [-- NINJA TARGETS…]
#   tools/build.sh                                  everything, in build/
#   tools/build.sh build-asan -Dsanitize=address    with ASan and UBSan
#   tools/build.sh build -- tools/orrery/orrery     only the binary
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

source tools/build_arguments.sh

# Meson takes ccache by itself where it is installed. CXX is read when the folder is first set up.
if [[ ! -f "$folder/build.ninja" ]]; then
  meson setup "$folder" "${options[@]}" </dev/null
elif ((${#options[@]} > 0)); then
  meson configure "$folder" "${options[@]}" </dev/null
fi
ninja -C "$folder" "$@" </dev/null
