#!/usr/bin/env python3
"""Checks that two builds of orrery give the same bytes for the same seed.

usage: same_bytes.py ORRERY_A ORRERY_B

Runs the simulator (in macro-steps and in single steps, with its journals and per-request log), the
what-if, the planner and the trace generator of both on the files that come with the project. Only
what measures the run itself (wall time, memory) may differ.
"""
import difflib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = "scenarios/whatif/llama8b-l4-vs-h100.json"
REQUEST = "scenarios/requests/chat-8b.json"
OF_THE_RUN = {"wall_s", "requests_per_wall_s", "peak_rss_bytes"}


def without_measurements(value):
    if isinstance(value, dict):
        return {k: without_measurements(v) for k, v in value.items() if k not in OF_THE_RUN}
    if isinstance(value, list):
        return [without_measurements(v) for v in value]
    return value


def output(binary, args):
    done = subprocess.run([binary, *args], cwd=ROOT, capture_output=True, text=True, timeout=600,
                          env=dict(os.environ, ORRERY_HOME=str(ROOT)), stdin=subprocess.DEVNULL)
    if done.returncode not in (0, 1):
        sys.exit(f"{binary} {' '.join(args)}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def document(binary, args):
    return json.dumps(without_measurements(json.loads(output(binary, args))), indent=1)


def files_written(binary, folder, *options):
    """Name, size and hash of all that a run leaves but its summary, which holds measurements."""
    target = Path(folder) / "run"
    shutil.rmtree(target, ignore_errors=True)
    output(binary, ["simulate", SCENARIO, "-o", str(target), "--journal", "--seed", "3", *options])
    found = sorted(p for p in target.rglob("*") if p.is_file() and p.name != "summary.json")
    if not any("journal" in p.name for p in found):
        sys.exit(f"{binary}: no journal among {[p.name for p in found]}")
    return "".join(f"{p.relative_to(target)} {p.stat().st_size} {hashlib.sha256(p.read_bytes()).hexdigest()}\n"
                   for p in found)


def synthesised(binary, folder):
    target = Path(folder) / "synth.jsonl"
    output(binary, ["trace", "synth", "scenarios/synth/sample.json", "-o", str(target), "--seed", "7"])
    return target.read_text()


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    a, b = (str(Path(p).resolve()) for p in sys.argv[1:])
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        checks = {
            "simulate": lambda binary: document(binary, ["simulate", SCENARIO, "--json", "--seed", "3"]),
            "simulate --single-step": lambda binary: document(
                binary, ["simulate", SCENARIO, "--single-step", "--json", "--seed", "3"]),
            "journals and requests": lambda binary: files_written(binary, folder),
            "journals and requests in single steps": lambda binary: files_written(binary, folder, "--single-step"),
            "plan": lambda binary: document(binary, ["plan", REQUEST, "--json", "--seed", "3"]),
            "whatif": lambda binary: document(binary, ["whatif", SCENARIO, "--json", "--seed", "3"]),
            "trace synth": lambda binary: synthesised(binary, folder),
        }
        for name, run in checks.items():
            one, two = run(a), run(b)
            if one == two and one:
                print(f"{name}: {len(one)} bytes, the same")
                continue
            failed += 1
            print(f"{name}: different")
            for line in list(difflib.unified_diff(one.splitlines(), two.splitlines(), a, b, n=1))[:20]:
                print("  " + line)
    print(f"{len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
