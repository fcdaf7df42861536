# Sourced by tools/build.sh and tools/test.sh: [BUILD_FOLDER] [MESON OPTIONS…] [-- REST…] becomes
# $folder, ${options[@]}, and the REST stays in "$@".
folder=build
if [[ $# -gt 0 && "$1" != -* ]]; then
  folder=$1
  shift
fi
options=()
while [[ $# -gt 0 && "$1" != "--" ]]; do
  options+=("$1")
  shift
done
[[ $# -eq 0 ]] || shift
