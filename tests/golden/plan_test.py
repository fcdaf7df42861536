#!/usr/bin/env python3
"""orrery plan: the ranked table, plan.json, the answer no, and each kind of bad input.

usage: plan_test.py ORRERY [unittest arguments]

ORRERY_UPDATE_GOLDEN=1 rewrites the outputs in tests/golden/expected/.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXPECTED = Path(__file__).resolve().parent / "expected"
SHARED = Path(os.environ.get("ORRERY_SHARED", ROOT.parent / "shared")) / "data" / "traces"
ORRERY = ""

REQUEST = {
    "schema": "orrery.request.v1",
    "name": "test",
    "models": [{"id": "llama-3.1-8b"}],
    "slo": {"ttft_ms": {"p95": 1500}, "tpot_ms": {"p95": 60}, "goodput": 0.9},
    "constraints": {"instance_types": ["g4dn.xlarge", "g6e.xlarge", "p5.4xlarge", "p5e.48xlarge"], "tp": [1]},
}
# What the twin of a measured machine is made from; figures of no particular machine.
PROFILE = {
    "schema": "orrery.measured_profile.v1", "id": "cpu-local", "model": "embedded", "machine": "a test",
    "source": "this test", "date": "2026-01-01", "fixed_ps": 1e9, "per_token_ps": 1.2e9, "per_sampled_ps": 1e8,
    "per_decode_context_ps": 2e5, "per_prefill_pair_ps": 1e5, "kv_blocks": 1024, "block_tokens": 16,
    "max_batched_tokens": 256, "max_running": 16, "max_context_tokens": 1024, "median_error": 0.05,
}


def trace_text(rows=400, gap_ms=120, least=200, spread=900):
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    for i in range(rows):
        ms = i * gap_ms
        lines.append(f"2026-01-01 00:{ms // 60000:02d}:{ms // 1000 % 60:02d}.{ms % 1000:03d}0000,"
                     f"{least + i * 37 % spread},{20 + i * 13 % 180}")
    return "\n".join(lines) + "\n"


class PlanCommand(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.tmp = Path(self.folder.name)
        (self.tmp / "trace.csv").write_text(trace_text())
        self.state = self.tmp / "state"

    def run_plan(self, *args):
        env = dict(os.environ, ORRERY_HOME=str(ROOT), ORRERY_STATE_DIR=str(self.state))
        return subprocess.run([ORRERY, "plan", *map(str, args)], cwd=self.tmp, env=env, text=True, timeout=100,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def request(self, **changes):
        document = json.loads(json.dumps(REQUEST))
        document.update(changes)
        (self.tmp / "request.json").write_text(json.dumps(document, indent=1))
        return "request.json"

    def refused(self, code, request, *says, trace="trace.csv"):
        done = self.run_plan(request, "--trace", trace)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        for part in says:
            self.assertIn(part, done.stderr)

    def test_ranked_table(self):
        done = self.run_plan(self.request(), "--trace", "trace.csv", "-o", "plan.json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        path = EXPECTED / "plan.txt"
        if os.environ.get("ORRERY_UPDATE_GOLDEN"):
            path.write_text(done.stdout)
        self.assertMultiLineEqual(path.read_text(), done.stdout)

    def test_the_plan_says_what_was_asked_predicted_and_rejected(self):
        done = self.run_plan(self.request(), "--trace", "trace.csv", "-o", "plan.json", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        printed = json.loads(done.stdout)
        plan = json.loads((self.tmp / "plan.json").read_text())
        self.assertTrue(printed.pop("feasible"))
        self.assertEqual(printed, plan)
        self.assertEqual(plan["schema"], "orrery.plan.v1")
        self.assertEqual(plan["slo"], REQUEST["slo"])
        self.assertLessEqual(plan["predicted"]["ttft_ms"]["p95"], 1500)
        costs = [a["usd_per_hour"] for a in plan["alternatives"]]
        self.assertEqual(costs, sorted(costs))
        for a in plan["alternatives"]:
            tried = {t["replicas"]: t["met"] for t in a["trials"]}
            self.assertTrue(tried[a["replicas"]])
            if a["replicas"] > 1:
                self.assertFalse(tried[a["replicas"] - 1])
        kinds = {r["instance_type"]: r["kind"] for r in plan["rejected"]}
        self.assertEqual(kinds["g4dn.xlarge"], "does_not_fit")
        self.assertEqual(kinds["p5e.48xlarge"], "no_price")

    def test_the_same_bytes_on_one_thread_and_on_two(self):
        outs = []
        for threads in ["1", "2"]:
            done = self.run_plan(self.request(), "--trace", "trace.csv", "--json", "--threads", threads)
            self.assertEqual(done.returncode, 0, done.stderr)
            outs.append(done.stdout)
        self.assertEqual(outs[0], outs[1])

    def test_no_fleet_is_an_answer(self):
        done = self.run_plan(self.request(slo={"ttft_ms": {"p99": 1}}), "--trace", "trace.csv", "-o", "plan.json")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("No fleet within the constraints meets the SLO", done.stdout)
        self.assertIn("more replicas cannot help", done.stdout)
        self.assertFalse((self.tmp / "plan.json").exists())

    def test_twice_as_strict_gives_more_workers(self):
        (self.state / "profiles").mkdir(parents=True)
        (self.state / "profiles" / "cpu-local.json").write_text(json.dumps(PROFILE))
        (self.tmp / "trace.csv").write_text(trace_text(rows=300, gap_ms=250, least=20, spread=150))
        workers = []
        for limit in [4000, 2000]:
            request = self.request(models=["embedded"], slo={"ttft_ms": {"p95": limit}},
                                   constraints={"instance_types": [{"type": "cpu-local", "usd_per_hour": 0.05}]})
            done = self.run_plan(request, "--trace", "trace.csv", "--json")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            workers.append(json.loads(done.stdout)["pools"][0]["replicas"])
        self.assertGreater(workers[1], workers[0])

    def test_a_machine_not_measured(self):
        request = self.request(models=["embedded"], constraints={"instance_types": [{"type": "cpu-local", "usd_per_hour": 1}]})
        self.refused(2, request, "cpu-local.json", "orrery calibrate --local")

    def test_bad_input(self):
        self.refused(2, "nowhere.json", "nowhere.json")
        self.refused(2, self.request(), "gone.csv", trace="gone.csv")
        self.refused(2, self.request(constraint={}), "request.json", "constraint", "constraints")
        self.refused(2, self.request(schema="orrery.scenario.v1", fleet=[]), "orrery.scenario.v1", "orrery.request.v1")
        self.refused(2, self.request(slo={}), "slo", "at least one target")
        self.refused(2, self.request(slo={"ttft": {"p99": 1}}), "ttft", "ttft_ms")
        self.refused(2, self.request(models=["llama-3.1-8c"]), "llama-3.1-8c", "llama-3.1-8b")
        self.refused(2, self.request(constraints={"instance_types": ["g6.xlrge"]}), "g6.xlarge")
        self.refused(2, self.request(constraints={"instance_types": []}), "instance_types")
        (self.tmp / "broken.json").write_text('{"schema": "orrery.request.v1",\n "models": [}\n')
        self.refused(2, "broken.json", "broken.json:2")
        (self.tmp / "empty.csv").write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n")
        self.refused(2, self.request(), "empty.csv", trace="empty.csv")

    def test_bad_rows_are_counted_and_more_than_one_in_a_hundred_refused(self):
        lines = trace_text().splitlines()
        lines[7] = "2026-01-01 00:00:01,lots,5"
        (self.tmp / "trace.csv").write_text("\r\n".join(lines))
        done = self.run_plan(self.request(), "--trace", "trace.csv")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("(first on line 8)", done.stdout)
        self.assertIn("CRLF", done.stdout)
        rows = json.loads(self.run_plan(self.request(), "--trace", "trace.csv", "--json").stdout)["repeat"]["trace_rows"]
        self.assertEqual((rows["rows"], rows["bad"]), (400, 1))
        for i in range(10, 20):
            lines[i] = "2026-01-01 00:00:01,lots,5"
        (self.tmp / "trace.csv").write_text("\n".join(lines))
        self.refused(2, self.request(), "trace.csv", "--tolerate")
        self.assertEqual(self.run_plan(self.request(), "--trace", "trace.csv", "--tolerate").returncode, 0)

    def test_a_trace_without_prefixes_is_said_to_have_none(self):
        plan = json.loads(self.run_plan(self.request(), "--trace", "trace.csv", "--json").stdout)
        self.assertEqual(plan["predicted"]["kv"]["hit_rate"] or 0, 0)
        half = plan["predicted"]["sensitivity"]["half_of_each_prompt_cached"]
        self.assertGreater(half["kv"]["hit_rate"], 0.3)
        self.assertLess(half["ttft_ms"]["mean"], plan["predicted"]["ttft_ms"]["mean"])

    def test_understood_but_not_here(self):
        self.refused(3, self.request(objective="latency"), "latency")
        self.refused(3, self.request(constraints={"instance_types": ["g6e.xlarge"], "spot_share": 0.5}), "spot_share")
        self.refused(2, self.request(objective="beauty"), "cost")

    @unittest.skipUnless(SHARED.is_dir(), "ORRERY_SHARED is not there")
    def test_a_production_trace(self):
        trace = SHARED / "azure2023" / "AzureLLMInferenceTrace_conv.csv"
        done = self.run_plan(ROOT / "scenarios/requests/chat-8b.json", "--trace", trace, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        plan = json.loads(done.stdout)
        self.assertEqual(plan["repeat"]["sized_on_requests"] + plan["later"]["requests"], 19366)


if __name__ == "__main__":
    ORRERY = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
