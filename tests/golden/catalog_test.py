#!/usr/bin/env python3
"""orrery catalog: tables, JSON, unknown names, and what this version does not have.

usage: catalog_test.py ORRERY [unittest arguments]
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ORRERY = ""

G6F_LARGE = "g6f.large 0.125 L4 none 2 8.00 GiB $0.20 2026-07-20 unknown -"


def run(*args, home=ROOT):
    return subprocess.run([ORRERY, "catalog", *args], env=dict(os.environ, ORRERY_HOME=str(home)),
                          text=True, timeout=60, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)


class Catalog(unittest.TestCase):
    def refused(self, code, *parts, **where):
        done = run(*where.pop("args"), **where)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        for part in parts:
            self.assertIn(part, done.stderr)

    def test_the_table_of_a_family(self):
        done = run("instances", "g6f.")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [line.rstrip() for line in done.stdout.splitlines()]
        self.assertEqual(rows[0].split(), ["instance", "GPUs", "GPU", "link", "vCPU", "memory", "on", "demand/h",
                                           "as", "of", "spot/h", "as", "of"])
        self.assertEqual(rows[1].split(), G6F_LARGE.split())
        self.assertEqual([r.split()[0] for r in rows[1:]],
                         ["g6f.large", "g6f.xlarge", "g6f.2xlarge", "g6f.4xlarge"])

    def test_every_kind_is_one_json_document_with_sources(self):
        for kind in ["gpus", "instances", "models", "profiles"]:
            document = json.loads(run(kind, "--json").stdout)
            self.assertEqual(document["schema"], "orrery.catalog.v1")
            self.assertEqual(document["kind"], kind)
            self.assertGreater(len(document[kind]), 20)
            for entry in document[kind]:
                self.assertTrue(entry["source"], entry["id"])

    def test_an_unknown_price_is_null_and_never_a_number(self):
        document = json.loads(run("instances", "cpu-local", "--json").stdout)
        self.assertIsNone(document["instances"][0]["on_demand_usd_per_hour"])
        self.assertIn("unknown", run("instances", "p5e.48xlarge").stdout)

    def test_a_single_entry_says_where_it_comes_from(self):
        out = run("profiles", "generic-h100-sxm").stdout
        self.assertIn("source", out)
        self.assertIn("compared with", out)

    def test_the_overview_counts_what_it_has(self):
        document = json.loads(run("--json").stdout)
        self.assertEqual(document["instances"], len(json.loads(run("instances", "--json").stdout)["instances"]))
        self.assertEqual(document["instances_without_price"], 3)

    def test_bad_words_suggest_the_nearest(self):
        self.refused(2, "models", args=["model"])
        self.refused(2, "llama-3.1-8b", args=["models", "llama-3.1-8bb"])

    def test_mig_is_not_there_yet(self):
        self.refused(3, "MIG", args=["mig"])

    def test_a_damaged_catalogue_names_file_line_and_field(self):
        with tempfile.TemporaryDirectory() as home:
            for folder in ["scenarios/catalog", "scenarios/profiles"]:
                target = Path(home, folder)
                target.mkdir(parents=True)
                for file in Path(ROOT, folder).iterdir():
                    target.joinpath(file.name).write_text(file.read_text())
            gpus = Path(home, "scenarios/catalog/gpus.json")
            text = gpus.read_text().replace('"memory_bytes": 16106127360', '"memory_bytes": -1')
            gpus.write_text(text)
            line = next(i for i, l in enumerate(text.splitlines(), 1) if '"memory_bytes": -1' in l)
            self.refused(2, f"gpus.json:{line}", "memory_bytes", "-1", args=["gpus"], home=home)
            gpus.unlink()
            self.refused(2, "gpus.json", args=["gpus"], home=home)


if __name__ == "__main__":
    ORRERY = os.path.abspath(sys.argv.pop(1))
    unittest.main()
