#!/usr/bin/env bash
# From a fresh clone to a plan that runs and is checked against what it promised.
# Installs what is missing, builds the binary, then runs the commands shown, on files of this clone.
# usage: tools/quickstart.sh
#   ORRERY_STATE_DIR   where the fleet's state lives (default: the user's state folder)
#   ORRERY_PORT        first port to try (default 8000)
#   ORRERY_BUILD       build folder (default build)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null

build=${ORRERY_BUILD:-build}
results=$(mktemp -d)
deployed=

bold() { if [[ -t 1 ]]; then printf '\n\033[1m%s\033[0m\n' "$*"; else printf '\n%s\n' "$*"; fi; }
orrery() { "$build/tools/orrery/orrery" "$@"; }

# show NAME COMMAND…: prints the command, runs it, keeps what it printed in $results/NAME.
show() {
  local name=$1
  shift
  bold "\$ $*"
  "$@" | tee "$results/$name"
}

clean_up() {
  local status=$?
  trap - EXIT INT TERM
  if [[ -n "$deployed" ]]; then
    bold "\$ orrery stop"
    orrery stop || true
  fi
  rm -rf "$results"
  exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

free_port() {
  python3 - "$1" <<'PY'
import socket, sys
for port in range(int(sys.argv[1]), 65536):
    with socket.socket() as s:
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            continue
    print(port)
    break
PY
}

# One streamed chat answer, as it arrives, then when its tokens came.
streamed_answer() {
  python3 - "$1" <<'PY'
import json, sys, time, urllib.request
with urllib.request.urlopen(sys.argv[1] + "/v1/models", timeout=30) as answer:
    model = json.load(answer)["data"][0]["id"]
body = {"model": model, "stream": True, "max_tokens": 48, "seed": 1, "ignore_eos": True,
        "messages": [{"role": "user", "content": "What does an orrery show?"}]}
request = urllib.request.Request(sys.argv[1] + "/v1/chat/completions", json.dumps(body).encode(),
                                 {"Content-Type": "application/json"})
start, times, text = time.monotonic(), [], ""
with urllib.request.urlopen(request, timeout=120) as answer:
    for line in answer:
        if not line.startswith(b"data: ") or line.strip() == b"data: [DONE]":
            continue
        for choice in json.loads(line[6:]).get("choices", []):
            piece = choice.get("delta", {}).get("content")
            if piece:
                times.append(time.monotonic())
                text += piece
                print(piece.replace("\n", " "), end="", flush=True)
if not times:
    sys.exit("the answer held no text")
gaps = sorted(1000 * (b - a) for a, b in zip(times, times[1:])) or [0.0]
print(f"\n\n{len(times)} pieces; TTFT {1000 * (times[0] - start):.1f} ms, "
      f"ITL median {gaps[len(gaps) // 2]:.2f} ms, longest {gaps[-1]:.2f} ms")
print("(the embedded model's weights are drawn from a seed: real arithmetic, meaningless text)")
PY
}

bold "1. what it is built from"
tools/install_deps.sh
bold "2. the binary"
options=()
[[ -f "$build/build.ninja" ]] || options=(-Dcuda=disabled -Dbenchmarks=disabled)
tools/build.sh "$build" "${options[@]}" -- tools/orrery/orrery
binary=$(realpath "$build/tools/orrery/orrery")

# A fleet of yours that runs already stays untouched: this one gets a state folder of its own.
if orrery status --json 2>/dev/null | grep -q '"runs": true'; then
  export ORRERY_STATE_DIR="$results/state"
  echo "a fleet of yours runs: this one keeps its state in $ORRERY_STATE_DIR"
fi
port=$(free_port "${ORRERY_PORT:-8000}")
url="http://localhost:$port"

bold "3. this machine's profile, and the twin"
show calibrate orrery calibrate --local
show inspect orrery trace inspect scenarios/traces/sample.jsonl
show simulate orrery simulate scenarios/whatif/llama8b-l4-vs-h100.json
show whatif orrery whatif scenarios/whatif/llama8b-l4-vs-h100.json

bold "4. a plan, and the fleet it describes"
show plan orrery plan scenarios/requests/embedded.json --trace scenarios/traces/sample.jsonl -o plan.json
show dry_run orrery deploy plan.json --dry-run --port "$port"
deployed=1
show deploy orrery deploy plan.json --port "$port"

bold "5. it answers"
show models curl -sS "$url/v1/models"
bold "\$ curl -N $url/v1/chat/completions -d '{\"stream\": true, …}'"
streamed_answer "$url" | tee "$results/answer"
show replay orrery replay scenarios/traces/sample.jsonl --url "$url" --against plan.json

bold "6. every decision once more"
run_dir=$(orrery status --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["fleet"]["run_dir"])')
bold "\$ orrery stop"
orrery stop
deployed=
show verify orrery journal verify "$run_dir"

bold "In short: the plan"
cat "$results/plan"
bold "one streamed answer"
cat "$results/answer"
bold "predicted against measured"
sed -n '/^predicted by/,$p' "$results/replay"
bold "Try next"
cat <<TEXT
  alias orrery=$binary
  orrery plan scenarios/requests/chat-8b.json -o cloud-plan.json     # the same for cloud GPUs
  orrery whatif scenarios/whatif/llama8b-l4-vs-h100.json --json      # every figure, as one document
  orrery serve --workers 2                                          # an OpenAI-compatible server
TEXT
