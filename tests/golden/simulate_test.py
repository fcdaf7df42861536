#!/usr/bin/env python3
"""orrery simulate and orrery whatif as people use them: good runs, and every kind of bad input.

usage: simulate_test.py ORRERY [unittest arguments]
"""
import csv
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ORRERY = ""
SHIPPED = "scenarios/whatif/llama8b-l4-vs-h100.json"


def run(*args):
    return subprocess.run([ORRERY, *map(str, args)], cwd=ROOT, env=dict(os.environ, ORRERY_HOME=str(ROOT)),
                          text=True, timeout=60, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def scenario(**changes):
    base = {
        "schema": "orrery.scenario.v1",
        "name": "test",
        "fleet": [{"model": "llama-3.1-8b", "instance_type": "g6.xlarge", "replicas": 2}],
        "workload": {"synth": {"schema": "orrery.synth.v1", "requests": 60,
                               "arrivals": {"process": "poisson", "rate_per_s": 2},
                               "tenants": [{"name": "a", "input_tokens": 200, "output_tokens": 40}]}},
        "slo": {"ttft_ms": {"p99": 60000}},
    }
    base.update(changes)
    return {k: v for k, v in base.items() if v is not None}


def without_machine(summary):
    for key in ("wall_s", "events", "requests_per_wall_s", "peak_rss_bytes"):
        del summary["sim"][key]
    return summary


class Twin(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def file(self, content, name="scenario.json"):
        path = Path(self.folder.name) / name
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
        return path

    def refused(self, done, code, *parts):
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)

    def test_a_good_run_prints_latencies_cost_and_saturation(self):
        done = run("simulate", self.file(scenario()))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for word in ("TTFT", "ITL", "TPOT", "end to end", "p99", "60 of 60 completed", "SLO", "met",
                     "per million output tokens", "saturated", "no prefix data in trace"):
            self.assertIn(word, done.stdout)

    def test_json_is_one_document_in_the_shared_shape(self):
        done = run("simulate", self.file(scenario()), "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        summary = json.loads(done.stdout)
        for key in ("requests ttft_ms itl_ms tpot_ms e2e_ms queue_ms throughput goodput kv queue_depth gpu "
                    "network ready_to_serve_s cost retries timeouts saturated confidence sim journal_hash seed "
                    "version by").split():
            self.assertIn(key, summary)
        self.assertEqual(summary["requests"]["completed"], 60)
        self.assertAlmostEqual(summary["cost"]["usd_per_hour"], 2 * 0.8048)
        self.assertEqual(sorted(summary["by"]), ["app", "hour", "model", "pool", "tenant"])

    def test_single_steps_give_the_same_result_and_a_seed_another(self):
        path = self.file(scenario())
        macro = json.loads(run("simulate", path, "--json").stdout)
        single = json.loads(run("simulate", path, "--json", "--single-step").stdout)
        other = json.loads(run("simulate", path, "--json", "--seed", "2").stdout)
        self.assertGreater(single["sim"]["events"], 2 * macro["sim"]["events"])
        self.assertEqual(without_machine(macro), without_machine(single))
        self.assertNotEqual(macro["journal_hash"], other["journal_hash"])

    def test_o_writes_summary_and_one_row_a_request(self):
        folder = Path(self.folder.name) / "run"
        done = run("simulate", self.file(scenario()), "-o", folder, "--journal")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads((folder / "summary.json").read_text())["requests"]["submitted"], 60)
        rows = list(csv.DictReader((folder / "requests.csv").read_text().splitlines()))
        self.assertEqual(len(rows), 60)
        self.assertEqual({r["status"] for r in rows}, {"completed"})
        self.assertTrue(all(float(r["ttft_ms"]) <= float(r["e2e_ms"]) for r in rows))
        self.assertEqual(sorted(p.name for p in folder.glob("*.journal")),
                         ["instance-0.journal", "instance-1.journal", "router.journal"])
        verdict = json.loads(run("journal", "verify", folder, "--json").stdout)
        self.assertEqual((verdict["ok"], verdict["placements"], verdict["confirmed"]), (True, 60, 60))
        journal = bytearray((folder / "instance-1.journal").read_bytes())
        journal[len(journal) // 2] ^= 1
        (folder / "instance-1.journal").write_bytes(journal)
        damaged = run("journal", "verify", folder)
        self.assertNotEqual(damaged.returncode, 0)
        self.assertIn("record", damaged.stdout + damaged.stderr)

    def test_a_trace_on_the_command_line_replaces_the_scenarios(self):
        trace = self.file("TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
                          "2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 18:15:50.9951690,396,109",
                          "trace.csv")
        summary = json.loads(run("simulate", self.file(scenario()), "--trace", trace, "--json").stdout)
        self.assertEqual(summary["requests"]["completed"], 2)
        self.assertEqual(summary["throughput"]["requests_per_s"] > 0, True)
        self.assertIsNone(summary["kv"]["hit_rate"])

    def test_bad_and_odd_rows_of_the_trace_are_told(self):
        rows = [f"2023-11-16 18:{10 + i // 60}:{i % 60:02}.0,{'x' if i == 4 else 10},5" for i in range(200)]
        rows[60] = "2023-11-16 18:10:50.0,10,5"
        trace = self.file("\r\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens"] + rows), "odd.csv")
        path = self.file(scenario())
        for command in ("simulate", "whatif"):
            done = run(command, path, "--trace", trace)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            for word in ("200 rows (azure", "1 bad and left out", "line 6", "CRLF", "before the row above"):
                self.assertIn(word, done.stdout)
            answer = json.loads(run(command, path, "--trace", trace, "--json").stdout)
            told = (answer["variants"][0] if command == "whatif" else answer)["workload"]["trace_rows"]
            self.assertEqual((told["rows"], told["bad_rows"], told["bad_rows_by_kind"][0]["first_line"]), (200, 1, 6))
            self.assertGreaterEqual(len(told["oddities"]), 3)

    def test_a_time_unit_and_a_rate_that_is_implausible(self):
        row = '{{"timestamp": {}, "input_length": 10, "output_length": 5, "hash_ids": [1]}}\n'
        trace = self.file("".join(row.format(5_000_000 * i) for i in range(3)), "unit.jsonl")
        path = self.file(scenario())
        for command in ("simulate", "whatif"):
            self.assertIn("is the time unit right?", run(command, path, "--trace", trace).stdout)
            sure = run(command, path, "--trace", trace, "--time-unit", "us")
            self.assertEqual((sure.returncode, sure.stderr), (0, ""))
            self.assertNotIn("time unit right", sure.stdout)
            self.refused(run(command, path, "--trace", trace, "--time-unit", "min"), 2, "--time-unit", "min")
        given = scenario(workload={"trace": str(trace), "time_unit": "us"})
        self.assertEqual(json.loads(run("simulate", self.file(given), "--json").stdout)["workload"]["warnings"], [])

    def test_a_prefix_hit_rate_is_for_traces_that_tell_nothing_of_sharing(self):
        workload = dict(scenario()["workload"], prefix_hit_rate=0.5)
        done = run("simulate", self.file(scenario(workload=workload)))
        self.assertIn("prefix_hit_rate is assumed", done.stdout)
        row = '{{"timestamp": {}, "input_length": 10, "output_length": 5, "hash_ids": [1]}}\n'
        trace = self.file("".join(row.format(1000 * i) for i in range(3)), "named.jsonl")
        self.refused(run("simulate", self.file(scenario(workload=workload)), "--trace", trace), 2,
                     "prefix_hit_rate", "hash_ids")

    def test_a_missed_slo_is_the_answer_no(self):
        done = run("simulate", self.file(scenario(slo={"ttft_ms": {"p99": 1}})))
        self.assertEqual(done.returncode, 1)
        self.assertIn("missed", done.stdout)

    def test_a_model_that_does_not_fit_is_the_answer_no_with_its_memory(self):
        path = self.file(scenario(fleet=[{"model": "llama-3.1-70b", "instance_type": "g6.xlarge"}]))
        done = run("simulate", path)
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        for word in ("does not fit by", "weights", "usable", "missing"):
            self.assertIn(word, done.stdout)
        answer = json.loads(run("simulate", path, "--json").stdout)
        self.assertFalse(answer["feasible"])
        self.assertGreater(answer["misfits"][0]["missing_bytes"], 1e11)

    def test_a_missing_scenario(self):
        self.refused(run("simulate", "no/such.json"), 2, "no/such.json")

    def test_a_scenario_that_is_not_json(self):
        self.refused(run("simulate", self.file('{"schema": "orrery.scenario.v1",\n "fleet": [}')), 2,
                     "scenario.json:2")

    def test_another_schema(self):
        self.refused(run("simulate", self.file(scenario(schema="orrery.plan.v1"))), 2, "orrery.plan.v1",
                     "orrery.scenario.v1")

    def test_an_unknown_key_names_its_line_and_the_nearest(self):
        text = json.dumps(scenario(), indent=1).replace('"replicas"', '"replcias"')
        line = 1 + text[:text.index("replcias")].count("\n")
        self.refused(run("simulate", self.file(text)), 2, f"scenario.json:{line}", "fleet[0]", "replcias",
                     '"replicas"')

    def test_unknown_names_suggest_the_nearest(self):
        bad = {"model": "llama-3.1-8B-x", "instance_type": "g6.xlarge"}
        self.refused(run("simulate", self.file(scenario(fleet=[bad]))), 2, "fleet[0].model", "llama-3.1-8b")
        bad = {"model": "llama-3.1-8b", "instance_type": "g6.xlrage"}
        self.refused(run("simulate", self.file(scenario(fleet=[bad]))), 2, "fleet[0].instance_type", "g6.xlarge")
        self.refused(run("simulate", self.file(scenario(router={"policy": "least_laod"}))), 2, "router.policy",
                     "least_load")

    def test_bad_values_name_their_place(self):
        for key, value, place in (("rate_scale", 0, "workload.rate_scale"), ("mode", "opne", "workload.mode"),
                                  ("max_requests", 0, "workload.max_requests"),
                                  ("idle_gap_cap_s", -1, "workload.idle_gap_cap_s")):
            workload = dict(scenario()["workload"], **{key: value})
            self.refused(run("simulate", self.file(scenario(workload=workload))), 2, place)
        workload = dict(scenario()["workload"], mode="closed")
        self.refused(run("simulate", self.file(scenario(workload=workload))), 2, "concurrency")
        self.refused(run("simulate", self.file(scenario(slo={"ttft_ms": {"99": 500}}))), 2, "slo.ttft_ms", "p99")

    def test_a_bad_trace(self):
        good = self.file(scenario())
        self.refused(run("simulate", good, "--trace", "no/such.csv"), 2, "no/such.csv")
        done = run("simulate", good, "--trace", self.file("what,is\nthis,1\n", "odd.csv"))
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("odd.csv:1: found", done.stderr)
        rows = "".join(f"2023-11-16 18:15:{i:02}.0,{'x' if i % 2 else 10},5\n" for i in range(20))
        bad = self.file("TIMESTAMP,ContextTokens,GeneratedTokens\n" + rows, "bad.csv")
        done = run("simulate", good, "--trace", bad)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("bad.csv:3: found 10 of 20 rows", done.stderr)
        self.assertEqual(run("simulate", good, "--trace", bad, "--tolerate").returncode, 0)

    def test_an_error_in_a_variant_is_told_at_its_place_in_the_patch(self):
        text = json.dumps(scenario(variants=[{"name": "v", "patch": {"workload": {"rate_scale": -1}}}]), indent=1)
        line = 1 + text[:text.index("rate_scale")].count("\n")
        self.refused(run("simulate", self.file(text), "--variant", "v"), 2, f"scenario.json:{line}",
                     "variants[0].patch.workload.rate_scale")
        self.refused(run("simulate", self.file(text), "--variant", "w"), 2, "w")

    def test_what_is_not_simulated_yet_is_exit_code_3(self):
        self.refused(run("simulate", self.file(scenario(autoscale={}))), 3, "autoscale")
        pool = dict(scenario()["fleet"][0], role="prefill")
        self.refused(run("simulate", self.file(scenario(fleet=[pool]))), 3, "role")

    def test_journal_needs_a_folder(self):
        self.refused(run("simulate", self.file(scenario()), "--journal"), 2, "-o")

    def test_ctrl_c_stops_within_a_second_and_shows_what_was_done(self):
        synth = dict(scenario()["workload"]["synth"], requests=20_000_000)
        process = subprocess.Popen([ORRERY, "simulate", str(self.file(scenario(workload={"synth": synth}, slo=None)))],
                                   env=dict(os.environ, ORRERY_HOME=str(ROOT)), text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        sent = time.monotonic()
        out, _ = process.communicate(timeout=20)
        self.assertLess(time.monotonic() - sent, 5)  # one second on an idle machine
        self.assertEqual(process.returncode, 0)
        self.assertIn("Stopped:", out)

    def test_whatif_compares_with_the_first_and_flags_saturation(self):
        variants = [{"name": "one", "patch": {"fleet": [dict(scenario()["fleet"][0], replicas=1)]}},
                    {"name": "too large", "patch": {"fleet": [{"model": "llama-3.1-70b",
                                                              "instance_type": "g6.xlarge"}]}}]
        path = self.file(scenario(variants=variants))
        done = run("whatif", path, "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        base, one, large = json.loads(done.stdout)["variants"]
        self.assertEqual((base["name"], one["name"], large["name"]), ("as given", "one", "too large"))
        self.assertNotIn("difference_percent", base)
        self.assertAlmostEqual(one["difference_percent"]["usd_per_hour"], -50)
        self.assertFalse(large["feasible"])
        text = run("whatif", path).stdout
        for word in ("as given", "one", "too large", "(-50%)", "does not fit by", "USD per 1M output tokens"):
            self.assertIn(word, text)

    def test_runs_that_answered_different_shares_are_not_compared(self):
        tiny = dict(scenario()["fleet"][0], settings={"max_context_tokens": 100})
        path = self.file(scenario(variants=[{"name": "refuses", "patch": {"fleet": [tiny]}}]))
        variant = json.loads(run("whatif", path, "--json").stdout)["variants"][1]
        self.assertEqual(variant["requests"]["rejected"], 60)
        self.assertNotIn("difference_percent", variant)
        self.assertIn("not compared", run("whatif", path).stdout)

    def test_the_shipped_scenario_shows_differences(self):
        done = run("whatif", SHIPPED, "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        variants = {v["name"]: v for v in json.loads(done.stdout)["variants"]}
        self.assertTrue(variants["2 x L4"]["saturated"])
        self.assertFalse(variants["as given"]["saturated"])
        self.assertLess(variants["1 x H100"]["ttft_ms"]["p50"], variants["as given"]["ttft_ms"]["p50"] / 2)
        self.assertGreater(variants["4 x L4, prefix first"]["kv"]["hit_rate"],
                           variants["4 x L4, round robin"]["kv"]["hit_rate"])


if __name__ == "__main__":
    ORRERY = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
