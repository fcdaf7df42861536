"""Ten random live runs: whatever clients did, every journal verifies. Also replay as the client."""
import json
import os
import random
import threading

from fleet import Fleet, check, write_plan

SEED = int(os.environ.get("ORRERY_SEED", "1"))
# The small checkpoint starts in no time; without it the embedded model does the same, slower.
SHARED = os.environ.get("ORRERY_SHARED", os.path.join(os.path.dirname(__file__), "../../../shared"))
CHECKPOINT = os.path.abspath(os.path.join(SHARED, "models/stories260K"))
MODEL = CHECKPOINT if os.path.isdir(CHECKPOINT) else "embedded"


def client(f, draw, failures):
    try:
        for _ in range(draw.randint(1, 4)):
            body = {"prompt": [5 + draw.randrange(3)] * draw.randint(1, 120), "max_tokens": draw.randint(1, 40),
                    "temperature": draw.choice([0, 0.7]), "ignore_eos": draw.random() < 0.7}
            if draw.random() < 0.3:
                s = f.open_request(stream=draw.random() < 0.5, **body)
                if draw.random() < 0.5:
                    s.recv(64)
                s.close()
            else:
                f.complete(**body)
    except Exception as failure:  # reported by the main thread
        failures.append(failure)


def one_run(number, workers):
    draw = random.Random(SEED * 1000 + number)
    with Fleet() as f:
        plan = write_plan(os.path.join(f.dir, "plan.json"), workers, model=MODEL)
        json_plan = json.load(open(plan))
        json_plan["router"] = {"policy": draw.choice(["least_load", "round_robin", "prefix_aware"])}
        # A small cache: preemption and eviction happen.
        json_plan["pools"][0]["settings"] = {"kv_blocks": draw.choice([24, 60]), "max_running": 4,
                                             "max_context_tokens": 320}
        json.dump(json_plan, open(plan, "w"))
        f.ok("deploy", plan, "--port", str(f.port))
        failures = []
        threads = [threading.Thread(target=client, args=(f, random.Random(draw.random()), failures))
                   for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        check(not failures, "ORRERY_SEED=%d run %d: %r" % (SEED, number, failures))
        run_dir = f.run_dir()
        f.ok("stop")
        verdict = f.verify(run_dir)
        check(verdict["placements"] == verdict["confirmed"] > 0, verdict)
        return verdict["placements"]


total = sum(one_run(number, 1 + number % 2) for number in range(10))
print("ten live runs: passed, %d placements" % total)
