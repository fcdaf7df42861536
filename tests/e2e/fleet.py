"""A fleet in its own state folder on a port of its own, and the checks that all scripts share.

Everything here is a real process on the loopback. Standard library only.
Usage of a script: SCRIPT.py PATH-TO-ORRERY
"""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ORRERY = os.path.abspath(sys.argv[1])


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def wait_until(condition, what, limit=60.0):
    end = time.monotonic() + limit
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError("not within %g s: %s" % (limit, what))


class Fleet:
    """`with Fleet() as f:` leaves nothing behind, however the script ends."""

    def __init__(self):
        # A short path: worker sockets live below it.
        self.dir = tempfile.mkdtemp(prefix="orr-", dir="/tmp")
        self.port = free_port()
        self.serve = None

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        if failure[0] is not None:
            log = os.path.join(self.dir, "fleet.log")
            if os.path.exists(log):
                sys.stderr.write(open(log).read()[-4000:])
        self.run("stop", "--timeout", "5")
        if self.serve and self.serve.poll() is None:
            self.serve.kill()
            self.serve.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

    def env(self):
        return dict(os.environ, ORRERY_STATE_DIR=self.dir, NO_COLOR="1")

    def run(self, *args):
        """(exit code, stdout, stderr) of one command."""
        done = subprocess.run([ORRERY, *args], env=self.env(), capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout, done.stderr

    def ok(self, *args):
        code, out, err = self.run(*args)
        check(code == 0, "orrery %s: exit code %d\n%s%s" % (" ".join(args), code, out, err))
        return out

    def start_serve(self, *args):
        self.serve = subprocess.Popen(
            [ORRERY, "serve", "--port", str(self.port), *args], env=self.env(),
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True)
        self.wait_ready()

    def wait_ready(self):
        def ready():
            if self.serve and self.serve.poll() is not None:
                raise AssertionError("serve ended with %d" % self.serve.returncode)
            return self.status().get("fleet") and self.status()["fleet"]["state"] == "ready"
        wait_until(ready, "the fleet is ready")

    def status(self):
        code, out, _ = self.run("status", "--json")
        return json.loads(out)

    def workers(self):
        return self.status()["workers"]

    def request(self, method, path, body=None, headers=None):
        """(status, headers, parsed JSON or text)"""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        data = body if isinstance(body, (str, bytes, type(None))) else json.dumps(body)
        connection.request(method, path, data, headers or {})
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        if response.getheader("Content-Type", "").startswith("application/json") and text:
            return response.status, response.headers, json.loads(text)
        return response.status, response.headers, text

    def complete(self, **body):
        status, _, answer = self.request("POST", "/v1/completions", {"prompt": "Hello", **body})
        check(status == 200, "completion: %s %s" % (status, answer))
        return answer

    def stream(self, path="/v1/completions", **body):
        """The events' data of a streamed answer, up to and with [DONE]."""
        status, headers, text = self.request("POST", path, {"stream": True, **body})
        check(status == 200, "stream: %s %s" % (status, text))
        check(headers["Content-Type"].startswith("text/event-stream"), headers["Content-Type"])
        events = text.split("\n\n")
        check(events.pop() == "", "a stream ends with an empty line")
        check(all(e.startswith("data: ") for e in events), text)
        events = [e[6:] for e in events]
        check(events[-1] == "[DONE]", "a stream ends with [DONE]")
        return [json.loads(e) for e in events[:-1]]

    def open_request(self, **body):
        """A socket whose request is being answered."""
        data = json.dumps({"prompt": "Hello", "ignore_eos": True, **body}).encode()
        s = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
        return s

    def metric(self, name):
        """Sum over the series of a family."""
        _, _, text = self.request("GET", "/metrics")
        values = re.findall(r"^%s(?:\{[^}]*\})? (\S+)$" % re.escape(name), text, re.M)
        check(values, "no metric " + name)
        return sum(float(v) for v in values)

    def busy(self):
        return self.metric("orrery_num_requests_running") + self.metric("orrery_num_requests_waiting")

    def run_dir(self):
        return self.status()["fleet"]["run_dir"]

    def verify(self, run_dir):
        code, out, err = self.run("journal", "verify", run_dir, "--json")
        check(code == 0, "journal verify: %d\n%s%s" % (code, out, err))
        verdict = json.loads(out)
        check(verdict["ok"] and not verdict["problems"], out)
        return verdict


def write_plan(path, replicas, settings=None, instance_type="cpu-local", model="embedded", predicted=None,
               slo=None):
    pool = {"name": "main", "model": model, "instance_type": instance_type, "replicas": replicas}
    if settings:
        pool["settings"] = settings
    plan = {"schema": "orrery.plan.v1", "pools": [pool]}
    if predicted:
        plan["predicted"] = predicted
    if slo:
        plan["slo"] = slo
    with open(path, "w") as f:
        json.dump(plan, f)
    return path


def stop_signal(process, sign=signal.SIGINT):
    """As a terminal does it: to the whole process group (start_serve gives each its own)."""
    os.killpg(process.pid, sign)
