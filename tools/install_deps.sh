#!/usr/bin/env bash
# Installs what Orrery is built from, on Debian 12 or a relative of it, as root or through sudo.
# Quick when all is there: it asks dpkg first and calls apt only for what is missing.
# usage: tools/install_deps.sh [--check]     --check: only say what is missing (exit 1 if anything)
set -euo pipefail

packages=(
  g++ clang ninja-build meson pkg-config ccache git python3 curl ca-certificates
  clang-format-14 clang-tidy-14 libclang-rt-14-dev
  libgtest-dev libgmock-dev libbenchmark-dev librapidcheck-dev
  nlohmann-json3-dev libvalijson-dev libcli11-dev libspdlog-dev
  libeigen3-dev libboost-dev libsqlite3-dev zlib1g-dev libzstd-dev
  protobuf-compiler protobuf-compiler-grpc libgrpc++-dev libprotobuf-dev
)

missing=()
for package in "${packages[@]}"; do
  # Not "installed" in any way dpkg words it: "ii" alone means usable.
  [[ "$(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null)" == ii* ]] || missing+=("$package")
done

if ((${#missing[@]} == 0)); then
  echo "all ${#packages[@]} packages are installed"
  exit 0
fi
echo "missing: ${missing[*]}"
[[ "${1:-}" != "--check" ]] || exit 1

if ! command -v apt-get >/dev/null; then
  echo "tools/install_deps.sh: found no apt-get, expected Debian or a relative of it." >&2
  echo "Install the packages above by other means, then run tools/build.sh." >&2
  exit 2
fi
as_root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null || { echo "tools/install_deps.sh: needs root or sudo" >&2; exit 2; }
  as_root=(sudo)
fi
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq </dev/null
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
  "${missing[@]}" </dev/null
echo "installed: ${missing[*]}"
