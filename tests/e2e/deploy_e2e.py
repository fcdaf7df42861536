"""deploy: dry run, start, scale up and down, roll back a plan that cannot start, stop."""
import json
import os
import threading

from fleet import Fleet, check, write_plan

with Fleet() as f:
    plan = write_plan(os.path.join(f.dir, "plan.json"), 1)
    port = ("--port", str(f.port))
    out = json.loads(f.ok("deploy", plan, "--dry-run", "--json", *port))
    check(out["applied"] is False and [c["change"] for c in out["changes"]] == ["start"], out)
    check(f.run("status")[0] == 1, "a dry run starts nothing")

    out = json.loads(f.ok("deploy", plan, "--json", *port))
    check(out["applied"] and len(out["workers"]) == 1 and out["fleet"]["port"] == f.port, out)
    first = out["workers"][0]["pid"]
    f.complete(max_tokens=2)
    run_dir = f.run_dir()

    # vLLM's names of the metrics come and go with the desired state; ours always stand.
    def vllm_names():
        return "vllm:" in f.request("GET", "/metrics")[2]
    check(not vllm_names() and f.metric("orrery_generation_tokens_total") == 2, "our names alone")
    f.ok("deploy", plan, "--vllm-metrics")
    check(vllm_names() and f.metric("vllm:generation_tokens_total") == 2, "both names")
    f.ok("deploy", plan)
    check(not vllm_names(), "our names alone again")

    write_plan(plan, 3)
    out = json.loads(f.ok("deploy", plan, "--json"))
    check(sorted(c["change"] for c in out["changes"]) == ["keep", "start", "start"], out)
    check([w["state"] for w in out["workers"]] == ["ready"] * 3, out)
    check(first in [w["pid"] for w in out["workers"]], "the first worker was kept")

    # Scaling down while requests run: none is lost.
    results = []
    threads = [threading.Thread(target=lambda: results.append(
        f.complete(max_tokens=60, ignore_eos=True)["usage"]["completion_tokens"])) for _ in range(6)]
    for t in threads:
        t.start()
    write_plan(plan, 1)
    out = json.loads(f.ok("deploy", plan, "--json"))
    check(sorted(c["change"] for c in out["changes"]) == ["keep", "stop", "stop"], out)
    for t in threads:
        t.join()
    check(results == [60] * 6, results)
    workers = f.workers()
    check([w["worker"] for w in workers] == ["main-0"] and workers[0]["pid"] == first, workers)
    check(f.run_dir() == run_dir, "one run: the fleet was not started again")

    # A plan whose worker cannot start: said with its reason, and what ran goes on.
    bad = write_plan(os.path.join(f.dir, "bad.json"), 1, settings={"kv_blocks": 512, "block_tokens": 16,
                                                                   "order": "no_such_order"})
    code, out, err = f.run("deploy", bad)
    check(code != 0 and "no_such_order" in err, (code, out, err))
    check(f.workers()[0]["pid"] == first, "what ran goes on")
    f.complete(max_tokens=2)

    code, _, err = f.run("deploy", write_plan(os.path.join(f.dir, "cloud.json"), 1, instance_type="g6.xlarge"))
    check(code == 3 and "g6.xlarge" in err, err)
    check(f.run("deploy", plan, "--backend", "kubernetes")[0] == 3, "kubernetes is not there yet")
    check(f.run("deploy", plan, "--backend", "nope")[0] == 2, "an unknown backend is bad input")
    code, _, err = f.run("deploy", plan, "--port", str(f.port + 1))
    check(code == 2 and str(f.port) in err, err)
    check(f.run("deploy", os.path.join(f.dir, "missing.json"))[0] == 2, "a missing plan is bad input")

    out = json.loads(f.ok("stop", "--json"))
    check(out["ran"] and out["drained"] and out["run_dir"] == run_dir, out)
    check(not os.path.exists("/proc/%d" % first), "the worker is gone")
    verdict = f.verify(run_dir)
    check(verdict["placements"] == verdict["confirmed"] == 8, verdict)
    check(len(verdict["files"]) >= 4, verdict)
print("deploy: passed")
