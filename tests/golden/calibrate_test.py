#!/usr/bin/env python3
"""orrery calibrate: the profile it writes is what the planner reads, and what it refuses.

usage: calibrate_test.py ORRERY [unittest arguments]
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ORRERY = ""


def run(*args, state):
    return subprocess.run([ORRERY, "calibrate", *args], env=dict(os.environ, ORRERY_STATE_DIR=str(state)),
                          text=True, timeout=100, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)


class Calibrate(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.state = Path(folder.name)

    def refused(self, code, *parts, args):
        done = run(*args, state=self.state)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        for part in parts:
            self.assertIn(part, done.stderr)
        self.assertFalse((self.state / "profiles").exists())

    def test_the_profile_is_written_where_the_planner_looks_and_its_terms_give_the_table(self):
        done = run("--local", "--quick", "--json", state=self.state)
        self.assertEqual(done.returncode, 0, done.stderr)
        document = json.loads(done.stdout)
        profile = json.loads((self.state / "profiles" / "cpu-local.json").read_text())
        self.assertEqual(profile, document["profile"])
        self.assertEqual(profile["schema"], "orrery.measured_profile.v1")
        self.assertEqual((profile["id"], profile["model"]), ("cpu-local", "embedded"))
        self.assertIsNone(document["error_before"])
        self.assertGreaterEqual(len(document["steps"]), 10)
        for step in document["steps"]:
            ps = (profile["fixed_ps"] + profile["per_token_ps"] * step["tokens"] +
                  profile["per_sampled_ps"] * step["sampled"] +
                  profile["per_decode_context_ps"] * step["decode_context_tokens"] +
                  profile["per_prefill_pair_ps"] * step["prefill_pairs"])
            self.assertAlmostEqual(ps * 1e-9, step["predicted_ms"], delta=1e-6 * step["predicted_ms"])
        again = run("--local", "--quick", state=self.state)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertNotIn("no profile was here", again.stdout)
        self.assertIn("error held out", again.stdout)

    def test_a_source_of_measurements_must_be_named(self):
        self.refused(2, "--local", "expected", args=[])

    def test_sources_to_come_say_what_they_would_need(self):
        self.refused(3, "--log", "readers", args=["--log", "engine.log"])
        self.refused(3, "--table", "reader", args=["--table", "table.csv"])

    def test_a_model_that_is_none_is_refused(self):
        self.refused(2, "/nowhere", "embedded", args=["--local", "--model", "/nowhere"])
        checkpoint = self.state / "m"
        checkpoint.mkdir()
        self.refused(2, "exactly one *.bin", args=["--local", "--model", str(checkpoint)])
        (checkpoint / "model.safetensors").write_bytes(b"")
        self.refused(3, "safetensors", args=["--local", "--model", str(checkpoint)])

    def test_an_unwritable_place_is_refused(self):
        (self.state / "file").write_text("")
        self.refused(2, "file", args=["--local", "--quick", "-o", str(self.state / "file" / "p.json")])


if __name__ == "__main__":
    ORRERY = sys.argv.pop(1)
    unittest.main()
