#!/usr/bin/env bash
# Installs what is missing, builds, runs all tests. Ends with "N passed, N failed[, N skipped]".
# usage: tools/test.sh [BUILD_FOLDER] [MESON OPTIONS…] [-- SUITE OR TEST NAMES…]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

source tools/build_arguments.sh

[[ -n "${ORRERY_SKIP_INSTALL:-}" ]] || tools/install_deps.sh
tools/build.sh "$folder" "${options[@]}"

status=0
meson test -C "$folder" --no-rebuild --print-errorlogs --timeout-multiplier "${ORRERY_TEST_PATIENCE:-4}" "$@" </dev/null || status=$?
# Cases rather than programs: GoogleTest's own reports and the Python tests' last lines.
python3 tools/checks/count_tests.py "$folder" "$status"
