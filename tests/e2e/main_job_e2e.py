"""The main job in one go: plan a fleet under an SLO and under one twice as strict, deploy each, ask
it something, measure it against its plan, stop it, and take its decisions again."""
import json
import os
import time

from fleet import Fleet, check

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# A machine of round figures: sizes must not depend on where this runs. Slow enough that the
# sample's rate needs several workers.
PROFILE = {
    "schema": "orrery.measured_profile.v1", "id": "cpu-local", "model": "embedded", "machine": "a test",
    "source": "this test", "date": "2026-01-01", "fixed_ps": 1e9, "per_token_ps": 2.5e8, "per_sampled_ps": 1e8,
    "per_decode_context_ps": 2e5, "per_prefill_pair_ps": 1e5, "kv_blocks": 1024, "block_tokens": 16,
    "max_batched_tokens": 256, "max_running": 16, "max_context_tokens": 1024, "median_error": 0.05,
}


def request_of(f, name, share):
    """scenarios/requests/embedded.json with its latency limits times `share`."""
    folder = os.path.join(ROOT, "scenarios", "requests")
    lines = open(os.path.join(folder, "embedded.json")).read().splitlines()
    request = json.loads("\n".join(line for line in lines if not line.lstrip().startswith("//")))
    request["workload"]["trace"] = os.path.join(folder, request["workload"]["trace"])
    for metric, limits in request["slo"].items():
        if metric.endswith("_ms"):
            request["slo"][metric] = {name: limit * share for name, limit in limits.items()}
    path = os.path.join(f.dir, name)
    json.dump(request, open(path, "w"))
    return path, request["workload"]["trace"]


def one_fleet(f, share):
    request, trace = request_of(f, "request.json", share)
    path = os.path.join(f.dir, "plan.json")
    f.ok("plan", request, "-o", path)
    plan = json.load(open(path))
    replicas = sum(pool["replicas"] for pool in plan["pools"])
    f.ok("deploy", path, "--port", str(f.port))
    workers = f.workers()
    check([w["state"] for w in workers] == ["ready"] * replicas, workers)
    for worker in workers:
        check(os.path.exists("/proc/%d" % worker["pid"]), "worker %s is a process" % worker["worker"])
    events = f.stream("/v1/chat/completions", max_tokens=8, temperature=0, ignore_eos=True,
                      messages=[{"role": "user", "content": "Hello"}])
    check(events[-1]["choices"][0]["finish_reason"] == "length", events[-1])
    check(any(e["choices"][0]["delta"].get("content") for e in events), "it says something")

    code, out, err = f.run("replay", trace, "--url", "http://127.0.0.1:%d" % f.port, "--max-requests", "40",
                           "--speed", "4", "--against", path, "--json")
    check(code == 0, err)
    measured = json.loads(out)
    check(measured["requests"]["completed"] == 40 and measured["completed_fraction"] == 1, measured["requests"])
    check(0 <= measured["goodput"]["fraction"] <= 1, measured["goodput"])
    against = measured["against"]
    check(against["refused"] is None and against["population"].startswith("40 completed of 40 sent"), against)
    rows = {row["metric"]: row for row in against["metrics"]}
    for name in ("TTFT p50 (ms)", "ITL p50 (ms)", "output tokens/s", "goodput"):
        check(rows[name]["predicted"] is not None and rows[name]["measured"] is not None, rows[name])

    run_dir = f.run_dir()
    f.ok("stop")
    for worker in workers:
        check(not os.path.exists("/proc/%d" % worker["pid"]), "worker %s is gone" % worker["worker"])
    verdict = f.verify(run_dir)
    check(verdict["placements"] == verdict["confirmed"] >= 41, verdict)
    return replicas, measured


start = time.monotonic()
with Fleet() as fleet:
    os.makedirs(os.path.join(fleet.dir, "profiles"))
    json.dump(PROFILE, open(os.path.join(fleet.dir, "profiles", "cpu-local.json"), "w"))
    some, measured = one_fleet(fleet, 1)
    more, _ = one_fleet(fleet, 0.5)
check(more > some, "twice as strict takes more workers: %d, then %d" % (some, more))
print("main job: passed; %d workers, then %d; TTFT p50 %.1f ms; %.1f s"
      % (some, more, measured["ttft_ms"]["p50"], time.monotonic() - start))
