#!/usr/bin/env python3
"""orrery trace inspect, convert and synth: what they print, write and refuse.

usage: trace_test.py ORRERY [unittest arguments]

ORRERY_UPDATE_GOLDEN=1 rewrites the outputs in tests/golden/expected/.
"""
import gzip
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXPECTED = Path(__file__).resolve().parent / "expected"
SAMPLE = "scenarios/traces/sample.jsonl"
SHARED = Path(os.environ.get("ORRERY_SHARED", ROOT.parent / "shared")) / "data" / "traces"
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
ORRERY = ""


def run(*args, **more):
    return subprocess.run([ORRERY, "trace", *map(str, args)], cwd=ROOT, timeout=60,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, env=dict(os.environ, ORRERY_HOME=str(ROOT), **more))


class Trace(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.tmp = Path(self.folder.name)

    def file(self, name, text):
        path = self.tmp / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def good(self, *args):
        done = run(*args)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def refused(self, *args, says):
        done = run(*args)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertTrue(done.stderr.startswith("orrery: "), done.stderr)
        for part in says:
            self.assertIn(str(part), done.stderr)

    def golden(self, name, text):
        path = EXPECTED / name
        if os.environ.get("ORRERY_UPDATE_GOLDEN"):
            path.write_text(text)
        self.assertMultiLineEqual(path.read_text(), text)

    # --- inspect

    def test_inspect_text(self):
        self.golden("trace_inspect_sample.txt", self.good("inspect", SAMPLE))

    def test_inspect_json(self):
        text = self.good("inspect", SAMPLE, "--json")
        self.golden("trace_inspect_sample.json", text)
        figures = json.loads(text)
        rows = [json.loads(line) for line in (ROOT / SAMPLE).read_text().splitlines()[1:]]
        self.assertEqual(figures["requests"], len(rows))
        self.assertEqual(figures["input_tokens"]["total"], sum(r["input_tokens"] for r in rows))
        self.assertEqual(figures["output_tokens"]["max"], max(r["output_tokens"] for r in rows))
        self.assertAlmostEqual(figures["span_s"], rows[-1]["arrival_s"] - rows[0]["arrival_s"], 6)
        self.assertEqual(sum(figures["rate"]["profile"]["requests"]), len(rows))
        seen, shared = set(), 0  # an independent count of the prefix sharing
        for r in rows:
            chain = ()
            for block in r["hash_ids"][:r["input_tokens"] // 16]:
                chain += (block,)
                shared += 16 if chain in seen else 0
                seen.add(chain)
        self.assertEqual(figures["prefix_sharing"]["seen_before_tokens"], shared)

    def test_inspect_a_slice_warns_when_it_is_not_like_the_rest(self):
        rows = [f'{{"arrival_s": {t}, "input_tokens": 5, "output_tokens": 5}}'
                for t in [0, 3600, 7000] + [7200 + 0.1 * i for i in range(5000)]]
        path = self.file("slow-start.jsonl", "\n".join(rows))
        figures = json.loads(self.good("inspect", path, "--slice", "0:7200", "--json"))
        self.assertEqual(figures["requests"], 3)
        self.assertIn("of the whole trace's mean rate", " ".join(figures["warnings"]))
        self.refused("inspect", path, "--slice", "9000:", says=["--slice", "no request"])

    def test_a_missing_file_a_folder_and_no_file(self):
        self.refused("inspect", self.tmp / "none.csv", says=[self.tmp / "none.csv", "no such file"])
        self.refused("inspect", self.tmp, says=[self.tmp])
        self.refused("inspect", says=["FILE"])

    def test_an_unknown_format_says_what_was_seen_and_what_is_known(self):
        path = self.file("lengths.csv", "input_length,output_length\n5,6\n")
        self.refused("inspect", path, says=[f"{path}:1", "input_length,output_length", "mooncake",
                                            "TIMESTAMP,ContextTokens,GeneratedTokens"])
        self.refused("inspect", SAMPLE, "--format", "azur", says=["--format", "azur", "burstgpt"])

    def test_unknown_options_and_values(self):
        self.refused("inspect", SAMPLE, "--tolrate", says=["--tolerate"])
        self.refused("inspect", SAMPLE, "--time-unit", "h", says=["--time-unit", "ms"])
        self.refused("inspect", SAMPLE, "--turns", "some", says=["--turns", "delta"])
        self.refused("inspect", SAMPLE, "--slice", "5", says=["--slice", "START:END"])

    def test_bad_rows_are_counted_by_kind_and_over_one_percent_refused(self):
        rows = "2024-05-10 00:00:00.0000000,10,5\n" * 99
        few = self.file("few.csv", AZURE + rows + "2024-05-10 00:00:00.0000000,,5\n")
        figures = json.loads(self.good("inspect", few, "--json"))
        self.assertEqual(figures["bad_rows_by_kind"], [{
            "kind": "empty field", "count": 1, "first_line": 101,
            "example": "2024-05-10 00:00:00.0000000,,5"}])
        many = self.file("many.csv", AZURE + rows + "x,1,5\n" * 2)
        self.refused("inspect", many, says=[f"{many}:101", "2 of 101 rows", "timestamp", "--tolerate"])
        self.assertIn("2 bad", self.good("inspect", many, "--tolerate"))

    def test_compressed_files_are_read_and_cut_ones_refused(self):
        packed = gzip.compress((ROOT / SAMPLE).read_bytes())
        whole = json.loads(self.good("inspect", self.file("s.bin", packed), "--json"))
        self.assertEqual(whole["requests"], 240)
        cut = self.file("cut.jsonl.gz", packed[:len(packed) // 2])
        self.refused("inspect", cut, says=[cut])

    # --- convert

    def test_convert_to_own_format_and_back_is_the_identity(self):
        out = self.tmp / "again.jsonl"
        self.good("convert", SAMPLE, "-o", out)
        self.assertEqual(out.read_bytes(), (ROOT / SAMPLE).read_bytes())

    def test_convert_says_what_is_lost(self):
        out = self.tmp / "sample.csv"
        text = self.good("convert", SAMPLE, "-o", out, "--to", "azure")
        self.assertIn("lost: hash_ids (240 rows)", text)
        self.assertIn("lost: session (", text)
        lines = out.read_text().splitlines()
        self.assertEqual(lines[0], AZURE.strip())
        self.assertEqual(len(lines), 241)
        report = json.loads(self.good("convert", SAMPLE, "-o", out, "--to", "burstgpt", "--json"))
        self.assertIn({"what": "hash_ids", "rows": 240}, report["lost"])
        self.assertEqual(report["written"], 240)

    def test_convert_compresses_by_ending_and_reads_it_back(self):
        for ending in ["gz", "zst"]:
            out = self.tmp / f"s.jsonl.{ending}"
            self.good("convert", SAMPLE, "-o", out)
            self.assertLess(out.stat().st_size, (ROOT / SAMPLE).stat().st_size / 2)
            back = self.tmp / "back.jsonl"
            self.good("convert", out, "-o", back)
            self.assertEqual(back.read_bytes(), (ROOT / SAMPLE).read_bytes())

    def test_idle_gaps_are_capped_before_the_speed_applies(self):
        rows = "".join(f'{{"arrival_s": {t}, "input_tokens": 5, "output_tokens": 5}}\n'
                       for t in [0, 10, 7210, 7220])
        path, out = self.file("gap.jsonl", rows), self.tmp / "out.jsonl"
        text = self.good("convert", path, "-o", out, "--cap-gap", "60", "--speed", "10")
        self.assertIn("compressed 99.2 % of idle time", text)
        arrivals = [json.loads(line)["arrival_s"] for line in out.read_text().splitlines()[1:]]
        self.assertEqual(arrivals, [0, 1, 7, 8])
        self.good("convert", path, "-o", out, "--cap-gap", "60", "--speed", "0.5")
        self.assertIn('{"arrival_s": 160,', out.read_text())
        self.refused("convert", path, "-o", out, "--speed", "0", says=["--speed", "above 0"])

    def test_ticks_are_spread_when_asked(self):
        rows = "".join(f'{{"timestamp": {3000 * (i // 6)}, "input_length": {i + 1}, '
                       f'"output_length": 5, "hash_ids": [{i}]}}\n' for i in range(60))
        path, out = self.file("ticks.jsonl", rows), self.tmp / "out.jsonl"
        self.assertIn("ticks of 3 s: up to 6 at once", self.good("inspect", path))
        self.good("convert", path, "-o", out, "--spread")
        arrivals = [json.loads(line)["arrival_s"] for line in out.read_text().splitlines()[1:]]
        self.assertEqual(arrivals, [0.5 * i for i in range(60)])

    def test_nothing_is_left_behind_by_a_conversion_that_fails(self):
        many = self.file("many.csv", AZURE + "x,1,5\n" * 3 + "2024-05-10 00:00:00,1,5\n")
        self.refused("convert", many, "-o", self.tmp / "out.jsonl", says=["3 of 4 rows"])
        self.assertEqual(os.listdir(self.tmp), ["many.csv"])
        self.refused("convert", SAMPLE, "-o", self.tmp / "no" / "out.jsonl", says=["no/out.jsonl"])
        self.refused("convert", SAMPLE, "-o", self.tmp / "o", "--to", "xml", says=["--to", "azure"])
        self.refused("convert", SAMPLE, "-o", "-", "--json", says=["--json"])

    def test_a_batch_file_has_a_valid_request_a_line(self):
        out = self.tmp / "batch.jsonl"
        self.good("convert", SAMPLE, "-o", out, "--to", "openai-batch")
        lines = [json.loads(line) for line in out.read_text().splitlines()]
        self.assertEqual(len({line["custom_id"] for line in lines}), 240)
        chat = [line for line in lines if line["url"] == "/v1/chat/completions"]
        self.assertTrue(all(line["body"]["messages"][0]["content"] for line in chat))

    # --- synth

    def test_synth_of_the_sample_spec_is_the_sample(self):
        done = run("synth", "scenarios/synth/sample.json", "-o", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, (ROOT / SAMPLE).read_text())
        other = run("synth", "scenarios/synth/sample.json", "-o", "-", "--seed", "2")
        self.assertNotEqual(other.stdout, done.stdout)

    def test_synth_figures_are_those_of_inspect(self):
        out = self.tmp / "s.jsonl"
        made = json.loads(self.good("synth", "scenarios/synth/day.json", "-o", out, "--requests",
                                    "3000", "--json"))
        seen = json.loads(self.good("inspect", out, "--json"))
        for key in ["requests", "span_s", "input_tokens", "output_tokens", "prefix_sharing",
                    "burstiness", "tenants", "sessions"]:
            self.assertEqual(made[key], seen[key], key)

    def test_synth_refuses_bad_specs_with_their_place(self):
        self.refused("synth", self.tmp / "none.json", "-o", self.tmp / "o", says=["none.json"])
        path = self.file("spec.json", '{\n"schema": "orrery.synth.v1",\n"requests": 5,\n'
                                      '"arivals": {}}')
        self.refused("synth", path, "-o", self.tmp / "o", says=[path, "arrivals"])
        path = self.file("spec.json", "{")
        self.refused("synth", path, "-o", self.tmp / "o", says=[path])
        self.assertFalse((self.tmp / "o").exists())

    # --- real files

    def test_real_files(self):
        if not SHARED.is_dir():
            self.skipTest("ORRERY_SHARED is not there")
        for name, form, rows, says in [
                ("azure2023/AzureLLMInferenceTrace_conv.csv", "azure", 19366, "no prefix data"),
                ("azure2024_sample/azure_llm_2024_sample.csv", "azure", 5880, "2,137 x timestamp"),
                ("burstgpt_sample/burstgpt_sample_54rows.csv", "burstgpt", 54, "3 failed requests"),
                ("mooncake_fast25/conversation_trace.jsonl", "mooncake", 12031,
                 "ticks of 3 s: up to 28 at once"),
                ("mooncake_dynamo_1000/mooncake_trace_1000.jsonl", "mooncake", 1000,
                 "ticks of 3.05 s")]:
            with self.subTest(name=name):
                text = self.good("inspect", SHARED / name)
                self.assertIn(f"{rows:,} rows, 0 bad", text)
                self.assertIn(form, text)
                self.assertIn(says, text)


if __name__ == "__main__":
    ORRERY = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
