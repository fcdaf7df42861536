#!/usr/bin/env python3
"""Prints the project's headline speeds beside what they should reach, on this machine, in one run.

usage: tools/bench/bars.py [BUILD_FOLDER]      (default build; needs tools/orrery/orrery there)

Nothing is asserted: the figures depend on the machine. The production trace is looked for under
ORRERY_SHARED (default ../shared); without it those rows say so. What the gateway adds to TTFT is
measured by BUILD_FOLDER/runtime/serve/bench_gateway, where benchmarks are built.
"""
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TRACE = "data/traces/azure2023/AzureLLMInferenceTrace_conv.csv"
SYNTH = {
    "schema": "orrery.synth.v1", "requests": 1_000_000, "arrivals": {"process": "poisson", "rate_per_s": 50},
    "input_tokens": {"distribution": "lognormal", "mean": 1000, "cv": 1, "min": 1, "max": 8000},
    "output_tokens": {"distribution": "lognormal", "mean": 200, "cv": 1, "min": 1, "max": 2000},
}


def run(*command):
    """Wall seconds, processor seconds, peak memory in bytes, standard output."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, text=True)
    wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, after.ru_maxrss * 1024, done.stdout


def row(what, bar, figure):
    print(f"{what:<58} {bar:<24} {figure}", flush=True)


def best_of(times, *command):
    return min((run(*command) for _ in range(times)), key=lambda r: r[1])


def main():
    build = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()
    orrery = build / "tools/orrery/orrery"
    os.environ["ORRERY_HOME"] = str(ROOT)
    trace = Path(os.environ.get("ORRERY_SHARED", ROOT.parent / "shared")) / TRACE
    row("what", "to reach", "here")
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder) / "spec.json"
        spec.write_text(json.dumps(SYNTH))
        rows = Path(folder) / "million.jsonl"
        run(orrery, "trace", "synth", spec, "-o", rows)
        csv = Path(folder) / "million.csv"
        run(orrery, "trace", "convert", rows, "-o", csv, "--to", "azure")
        for name, path in [("own JSON lines", rows), ("Azure CSV", csv)]:
            wall, cpu, rss, _ = best_of(3, orrery, "trace", "inspect", path, "--json")
            row(f"trace inspect, 1 000 000 rows, {name}", "<= 2 s, <= 100 MB",
                f"{cpu:.2f} s of one core ({wall:.2f} s wall), children's peak {rss / 1e6:.0f} MB")
    if trace.is_file():
        for name, extra in [("macro-steps", []), ("single steps", ["--single-step"])]:
            wall, cpu, _, out = best_of(3, orrery, "simulate", ROOT / "scenarios/bench/azure-conv.json", "--trace", trace, "--json", *extra)
            summary = json.loads(out)
            done = summary["requests"]["completed"]
            row(f"simulate Azure conversations ({done} requests), {name}", ">= 20 000 requests/s",
                f"{done / cpu:,.0f} requests/s of one core, start included ({done / wall:,.0f} by wall)")
        wall, cpu, _, out = run(orrery, "plan", ROOT / "scenarios/requests/chat-8b.json", "--trace", trace, "--json")
        plan = json.loads(out)
        row("plan with 8 instance types on that trace", "<= 60 s",
            f"{wall:.1f} s wall, {cpu:.1f} s of processors, {plan['repeat']['simulations']} simulations")
    else:
        row("simulate and plan on a production trace", "", f"skipped: {trace} is not there (set ORRERY_SHARED)")
    gateway = build / "runtime/serve/bench_gateway"
    if gateway.is_file():
        print("\nwhat the gateway adds to TTFT (to reach: <= 2 ms p50):")
        print(run(gateway)[3])
    else:
        row("gateway's share of TTFT", "<= 2 ms p50", "skipped: benchmarks are not built")


if __name__ == "__main__":
    main()
