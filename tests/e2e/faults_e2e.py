"""Faults: a killed worker, a port in use, a worker dead at start, two fleets side by side."""
import json
import os
import signal
import subprocess
import threading
import time

from fleet import ORRERY, Fleet, check, stop_signal, wait_until


def killed_worker(f):
    """The requests of a killed worker end with an error; others go on; it is started again."""
    before = {w["worker"]: w for w in f.workers()}
    sockets = [f.open_request(max_tokens=700, stream=True) for _ in range(4)]
    texts = [b""] * 4

    def read(i):
        while True:
            part = sockets[i].recv(65536)
            if not part:
                return
            texts[i] += part
            if b"[DONE]" in texts[i]:
                return
    threads = [threading.Thread(target=read, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    wait_until(lambda: f.metric("orrery_num_requests_running") == 4, "all run")
    wait_until(lambda: all(b"data: " in t for t in texts), "all stream")
    os.kill(before["main-0"]["pid"], signal.SIGKILL)
    for t in threads:
        t.join(60)
    broken = [t for t in texts if b'"error"' in t]
    whole = [t for t in texts if b'"finish_reason":"length"' in t]
    check(len(broken) == 2 and len(whole) == 2, [t[-300:] for t in texts])
    check(all(b"[DONE]" in t for t in texts), "an error frame is followed by [DONE]")

    def restarted():
        now = {w["worker"]: w for w in f.workers()}
        w = now.get("main-0")
        return w and w["state"] == "ready" and w["restarts"] == 1 and w["pid"] != before["main-0"]["pid"] and now
    now = wait_until(restarted, "main-0 runs again")
    check(now["main-1"]["pid"] == before["main-1"]["pid"], "main-1 was not touched")
    check(f.metric("orrery_router_ledger_requests") == 0, "the ledger is free")
    for _ in range(4):
        f.complete(max_tokens=2)


def gateway_killed():
    """Workers do not outlive their gateway."""
    with Fleet() as f:
        f.start_serve()
        pids = [w["pid"] for w in f.workers()]
        f.serve.kill()
        f.serve.wait()
        wait_until(lambda: not any(os.path.exists("/proc/%d" % p) for p in pids), "workers end", 10)
        check(f.run("status")[0] == 1, "nothing runs")
        code, out, err = f.run("journal", "verify", f.status()["fleet"]["run_dir"])
        check(code == 0, out + err)


def ports_and_folders(f):
    with Fleet() as g:
        code, _, err = g.run("serve", "--port", str(f.port))
        check(code == 2 and str(f.port) in err and "--port" in err, err)
        plan = os.path.join(g.dir, "p.json")
        json.dump({"schema": "orrery.plan.v1", "pools": [
            {"model": "embedded", "instance_type": "cpu-local", "replicas": 1}]}, open(plan, "w"))
        code, _, err = g.run("deploy", plan, "--port", str(f.port))
        check(code == 2 and str(f.port) in err, err)
        code, _, err = g.run("serve", "--host", "no.such.host")
        check(code == 2, err)
        # A second fleet beside the first.
        g.start_serve()
        check(g.complete(max_tokens=3)["usage"]["completion_tokens"] <= 3, "the second answers")
        check(f.complete(max_tokens=3)["usage"]["completion_tokens"] <= 3, "the first answers")
        code, _, err = f.run("serve", "--port", str(g.port + 1))
        check(code == 2 and "runs already" in err and "ORRERY_STATE_DIR" in err, err)
        g.ok("stop")
        check(f.status()["runs"], "stopping one leaves the other")


def dead_at_start():
    with Fleet() as f:
        code, out, err = f.run("serve", "--port", str(f.port), "--model", f.dir)
        check(code == 2, (code, out, err))
        code, out, err = f.run("serve", "--port", str(f.port), "--model", "/no/such/model")
        check(code == 2 and "/no/such/model" in err, (code, out, err))
        check(f.run("serve", "--workers", "0")[0] == 2, "no workers is bad input")


def second_signal():
    with Fleet() as f:
        f.start_serve()
        pid = f.workers()[0]["pid"]
        s = f.open_request(max_tokens=900, stream=True)
        check(b"200 OK" in s.recv(4096), "it streams")
        stop_signal(f.serve)
        time.sleep(0.2)
        stop_signal(f.serve)
        check(f.serve.wait(10) == 1, "a second Ctrl-C ends at once")
        wait_until(lambda: not os.path.exists("/proc/%d" % pid), "the worker is gone", 10)


with Fleet() as fleet:
    fleet.start_serve("--workers", "2")
    killed_worker(fleet)
    ports_and_folders(fleet)
    directory = fleet.run_dir()
    fleet.ok("stop")
    result = fleet.verify(directory)
    check(result["confirmed"] + result["unconfirmed"] == result["placements"], result)
gateway_killed()
dead_at_start()
second_signal()
print("faults: passed")
