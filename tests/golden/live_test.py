#!/usr/bin/env python3
"""serve, deploy, status, replay, stop and calibrate when they work, and a worker dead at start, against
golden output. Measured figures are replaced: what stays is what is said, and in which order.

usage: live_test.py ORRERY [unittest arguments]
"""
import re
import signal
import socket
import subprocess
import sys
import time
import unittest
from pathlib import Path

import golden
from golden_inputs import AZURE, own_trace, plan, pool

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


class Live(golden.GoldenTest):
    script = Path(__file__).name

    def setUp(self):
        self.place = self.folder({"p.json": plan(), "t.jsonl": own_trace(6)})
        self.port = free_port()
        self.place.hidden += [(":" + self.port, ":PORT"), (" " + self.port, " PORT")]
        self.addCleanup(self.place.run, "stop", "--timeout", "2")

    def check(self, name, *args, code=0, shape="numbers"):
        done = self.place.run(*args)
        text = self.place.golden(args, done, shape)
        self.compare(name, text)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        if "--json" in args and code == 0:
            self.assertEqual(done.stderr, "")

    def url(self):
        return ["--url", f"http://127.0.0.1:{self.port}"]

    def test_deploy_status_replay_stop(self):
        self.check("live/deploy", "deploy", "p.json", "--port", self.port)
        self.check("live/deploy-again", "deploy", "p.json", "--json", shape="json")
        self.check("live/status", "status")
        self.check("live/status-json", "status", "--json", shape="json")
        self.check("live/deploy-on-another-port", "deploy", "p.json", "--port", "1", code=2)
        self.check("live/serve-beside-it", "serve", "--port", "0", code=2)
        self.check("live/replay", "replay", "t.jsonl", *self.url(), "--speed", "4", "--max-requests", "5")
        self.check("live/replay-json", "replay", "t.jsonl", *self.url(), "--max-requests", "2", "--json", shape="json")
        self.check("live/replay-unknown-model", "replay", "t.jsonl", *self.url(), "--model", "gone", code=1)
        self.place.write("bad.csv", AZURE + "2024-05-10 00:00:00.0000000,10,5\n" * 9 + "x,1,5\n" * 2)
        self.check("live/replay-bad-rows", "replay", "bad.csv", *self.url(), code=2)
        run = str(max((self.place.path / "state" / "runs").iterdir()))
        self.check("live/stop", "stop")
        self.check("live/verify", "journal", "verify", run)
        self.check("live/status-after-stop", "status", code=1)

    def test_serve_until_it_is_interrupted(self):
        args = ["serve", "--workers", "1", "--port", self.port]
        process = subprocess.Popen([self.orrery, *args], cwd=self.place.path, env=self.place.env(), text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        first = process.stdout.readline()
        self.assertIn("serving at", first)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        rest, stderr = process.communicate(timeout=30)
        done = subprocess.CompletedProcess(args, process.returncode, first + rest, stderr)
        self.compare("live/serve", self.place.golden(args, done, "numbers"))

    def test_a_worker_dead_at_start(self):
        dead = {"kv_blocks": 512, "block_tokens": 16, "order": "no_such_order"}
        self.place.write("dead.json", plan(pools=pool(replicas=1, settings=dead)))
        self.check("live/deploy-dead-at-start", "deploy", "dead.json", "--port", self.port, code=2)
        self.check("live/serve-dead-at-start", "serve", "dead.json", "--port", self.port, code=2)
        self.check("live/status-after-a-death", "status", code=1)

    def test_calibrate(self):
        done = self.place.run("calibrate", "--local", "--quick", "-o", "cpu.json")
        self.place.hidden += re.findall(r"^(machine +.*)$", done.stdout, re.MULTILINE) and [
            (re.search(r"^machine +(.*)$", done.stdout, re.MULTILINE)[1], "MACHINE")]
        done.stdout = re.sub(r"\n.*The machine was busy:[^\n]*", "", done.stdout)  # said of a busy machine only
        done.stdout = re.sub(r"[-+] +(?=\d)", "+", done.stdout)
        self.compare("live/calibrate", self.place.golden(done.args[1:], done, "numbers"))
        self.assertEqual(done.returncode, 0)
        profile = (self.place.path / "cpu.json").read_text()
        shape = subprocess.CompletedProcess([], 0, profile, "")
        self.compare("live/calibrate-profile", self.place.golden(["the", "profile"], shape, "json"))


if __name__ == "__main__":
    Live.orrery = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
