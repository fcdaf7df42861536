#!/usr/bin/env python3
"""Every command: one good run, and each kind of bad input it can get, against golden output.

usage: commands_test.py ORRERY [unittest arguments]

ORRERY_UPDATE_GOLDEN=1 rewrites tests/golden/expected/COMMAND/CASE.txt. What needs a fleet that runs
is in live_test.py; laws of single commands are in the scripts of their name.
"""
import re
import socket
import sys
import unittest
from pathlib import Path

import golden
from golden_inputs import (AZURE, BAD_TRACES, BROKEN_JSON, G70, azure_trace, fleet, own_trace, plan, pool,
                           request, scenario, synth)

SAMPLE = "scenarios/traces/sample.jsonl"
GOOD = {"s.json": scenario()}
SIZED = {"r.json": request(), "t.csv": azure_trace()}
CASES = []  # (command, case, expected exit code, files, arguments, options)


def case(command, name, code, files, *args, **options):
    CASES.append((command, name, code, files, args, options))


def options_of(command, *args, files=None):
    """The mistakes in options that every command refuses alike."""
    words = command.split()
    case(command, "unknown-option", 2, files, *words, *args, "--jsno")
    case(command, "negative-seed", 2, files, *words, *args, "--seed", "-1")


def trace_mistakes(command, *before, after=(), files=None, with_option=(), but=()):
    """What every command that reads a trace says about one it cannot read."""
    words = command.split()
    case(command, "trace-missing", 2, files, *words, *before, *with_option, "gone.csv", *after)
    case(command, "trace-is-a-folder", 2, files, *words, *before, *with_option, "scenarios", *after)
    for name, (file, content) in BAD_TRACES.items():
        if name in but:
            continue
        case(command, "trace-" + name, 2, {**(files or {}), file: content}, *words, *before, *with_option, file,
             *after)


def document_mistakes(command, good, *after, schema, unknown_key, extra=None):
    """What every command that reads a JSON document says about one it cannot read."""
    words = command.split()
    mistakes = {
        "is-a-folder": None,
        "broken-json": BROKEN_JSON,
        "not-json": "fleet: [main]\n",
        "wrong-schema": dict(good, schema=schema),
        "no-schema": {key: value for key, value in good.items() if key != "schema"},
        "unknown-key": dict(good, **unknown_key),
    }
    case(command, "file-missing", 2, extra, *words, "gone.json", *after)
    for name, content in mistakes.items():
        files = dict(extra or {})
        if content is not None:
            files["d.json"] = content
        case(command, name, 2, files, *words, "scenarios" if content is None else "d.json", *after)
    case(command, "no-file-named", 2, extra, *words)


def top_level():
    case("orrery", "help", 0, None, "--help")
    case("orrery", "unknown-command", 2, None, "simulat")
    case("orrery", "unknown-subcommand", 2, None, "trace", "inspekt")
    case("orrery", "unknown-option", 2, None, "--jsno")
    case("orrery", "not-in-this-build", 3, None, "watch")
    case("orrery", "wrong-progress", 2, None, "catalog", "--progress", "maybe")
    case("orrery", "seed-not-a-number", 2, None, "catalog", "--seed", "x")
    case("orrery", "data-not-found", 2, None, "catalog", env={"ORRERY_HOME": "nowhere"})


def trace():
    case("trace inspect", "good", 0, None, "trace", "inspect", SAMPLE)
    case("trace inspect", "good-json", 0, None, "trace", "inspect", SAMPLE, "--json")
    case("trace inspect", "no-file-named", 2, None, "trace", "inspect")
    case("trace inspect", "unknown-format-named", 2, None, "trace", "inspect", SAMPLE, "--format", "azur")
    case("trace inspect", "wrong-slice", 2, None, "trace", "inspect", SAMPLE, "--slice", "5")
    trace_mistakes("trace inspect")
    options_of("trace inspect", SAMPLE)

    case("trace convert", "good", 0, None, "trace", "convert", SAMPLE, "-o", "out.csv", "--to", "azure")
    case("trace convert", "good-json", 0, None, "trace", "convert", SAMPLE, "-o", "out.csv", "--to", "azure", "--json")
    case("trace convert", "unknown-target", 2, None, "trace", "convert", SAMPLE, "-o", "out", "--to", "xml")
    case("trace convert", "no-output-named", 2, None, "trace", "convert", SAMPLE)
    case("trace convert", "output-folder-missing", 2, None, "trace", "convert", SAMPLE, "-o", "no/out.jsonl")
    case("trace convert", "json-and-trace-both-on-stdout", 2, None, "trace", "convert", SAMPLE, "-o", "-", "--json")
    case("trace convert", "speed-zero", 2, None, "trace", "convert", SAMPLE, "-o", "out.jsonl", "--speed", "0")
    trace_mistakes("trace convert", after=["-o", "out.jsonl"])
    options_of("trace convert", SAMPLE, "-o", "out.jsonl")

    out = ["-o", "out.jsonl"]
    case("trace synth", "good", 0, {"y.json": synth()}, "trace", "synth", "y.json", *out)
    case("trace synth", "good-json", 0, {"y.json": synth()}, "trace", "synth", "y.json", *out, "--json")
    case("trace synth", "good-on-stdout", 0, {"y.json": synth(requests=3)}, "trace", "synth", "y.json", "-o", "-")
    case("trace synth", "wrong-type", 2, {"y.json": synth(requests="many")}, "trace", "synth", "y.json", *out)
    case("trace synth", "unknown-process", 2, {"y.json": synth(arrivals={"process": "poison", "rate_per_s": 2})},
         "trace", "synth", "y.json", *out)
    case("trace synth", "negative-rate", 2, {"y.json": synth(arrivals={"process": "poisson", "rate_per_s": -2})},
         "trace", "synth", "y.json", *out)
    document_mistakes("trace synth", synth(), *out, schema="orrery.scenario.v1", unknown_key={"arivals": {}})
    options_of("trace synth", "y.json", *out, files={"y.json": synth()})


def scenario_mistakes(command):
    def bad(name, code=2, *args, **changes):
        case(command, name, code, {"s.json": scenario(**changes)}, command, "s.json", *args)
    bad("unknown-model", fleet=fleet(model="llama-3.1-8bb"))
    bad("unknown-instance", fleet=fleet(instance_type="g6.xlarg"))
    bad("unknown-router", router={"policy": "least_lod"})
    bad("unknown-key-inside", fleet=fleet(replica=2))
    bad("wrong-type", fleet=fleet(replicas="two"))
    bad("no-replicas", fleet=fleet(replicas=0))
    bad("no-fleet", fleet=[])
    bad("no-workload", workload={})
    bad("workload-trace-missing", workload={"trace": "gone.jsonl"})
    document_mistakes(command, scenario(), schema="orrery.request.v1", unknown_key={"flet": []})
    trace_mistakes(command, "s.json", files=GOOD, with_option=["--trace"])
    options_of(command, "s.json", files=GOOD)


def twin():
    sim = {"wall": True}
    case("simulate", "good", 0, GOOD, "simulate", "s.json", **sim)
    case("simulate", "good-json", 0, GOOD, "simulate", "s.json", "--json", shape="json")
    case("simulate", "good-variant-with-output", 0, GOOD, "simulate", "s.json", "--variant", "one", "-o", "run",
         "--journal", **sim)
    case("simulate", "slo-missed", 1, {"s.json": scenario(slo={"ttft_ms": {"p99": 1}})}, "simulate", "s.json", **sim)
    case("simulate", "impossible-fit", 1, {"s.json": scenario(fleet=[G70])}, "simulate", "s.json")
    case("simulate", "impossible-fit-json", 1, {"s.json": scenario(fleet=[G70])}, "simulate", "s.json", "--json")
    case("simulate", "unknown-variant", 2, GOOD, "simulate", "s.json", "--variant", "on")
    case("simulate", "journal-without-folder", 2, GOOD, "simulate", "s.json", "--journal")
    case("simulate", "output-cannot-be-made", 2, dict(GOOD, file="x"), "simulate", "s.json", "-o", "file/run")
    case("simulate", "machine-not-measured", 2,
         {"s.json": scenario(fleet=[{"model": "embedded", "instance_type": "cpu-local"}])}, "simulate", "s.json")
    scenario_mistakes("simulate")

    too_large = scenario(variants=[{"name": "too large", "patch": {"fleet": [G70]}}])
    case("whatif", "good", 0, GOOD, "whatif", "s.json")
    case("whatif", "good-json", 0, GOOD, "whatif", "s.json", "--json", shape="json")
    case("whatif", "impossible-fit", 0, {"s.json": too_large}, "whatif", "s.json")
    case("whatif", "nothing-fits", 1, {"s.json": scenario(fleet=[G70], variants=None)}, "whatif", "s.json")
    case("whatif", "unknown-key-in-a-variant", 2,
         {"s.json": scenario(variants=[{"name": "x", "patch": {"flet": []}}])}, "whatif", "s.json")
    scenario_mistakes("whatif")


def planning():
    def bad(name, code=2, **changes):
        case("plan", name, code, {**SIZED, "r.json": request(**changes)}, "plan", "r.json", "--trace", "t.csv")
    local = {"instance_types": [{"type": "cpu-local", "usd_per_hour": 1}]}
    case("plan", "good", 0, SIZED, "plan", "r.json", "--trace", "t.csv", "-o", "plan.json")
    case("plan", "good-json", 0, SIZED, "plan", "r.json", "--trace", "t.csv", "--json", shape="json")
    bad("impossible-fit", 1, models=[{"id": "llama-3.1-70b"}], constraints={"instance_types": ["g6.xlarge"], "tp": [1]})
    bad("no-fleet-meets-the-target", 1, slo={"ttft_ms": {"p99": 1}})
    bad("unknown-model", models=["llama-3.1-8c"])
    bad("unknown-instance", constraints={"instance_types": ["g6.xlarg"]})
    bad("no-target", slo={})
    bad("unknown-target", slo={"ttft": {"p99": 1}})
    bad("unknown-percentile", slo={"ttft_ms": {"p101": 1}})
    bad("machine-not-measured", models=["embedded"], constraints=local)
    case("plan", "profile-broken", 2, {**SIZED, "r.json": request(models=["embedded"], constraints=local),
                                       "state/profiles/cpu-local.json": "{"}, "plan", "r.json", "--trace", "t.csv")
    case("plan", "no-trace", 2, SIZED, "plan", "r.json")
    case("plan", "output-folder-missing", 2, SIZED, "plan", "r.json", "--trace", "t.csv", "-o", "no/plan.json")
    case("plan", "threads-zero", 2, SIZED, "plan", "r.json", "--trace", "t.csv", "--threads", "0")
    case("plan", "again-not-yet", 3, SIZED, "plan", "r.json", "--again", "old.json")
    document_mistakes("plan", request(), "--trace", "t.csv", schema="orrery.scenario.v1",
                      unknown_key={"constraint": {}}, extra=SIZED)
    trace_mistakes("plan", "r.json", files=SIZED, with_option=["--trace"])
    options_of("plan", "r.json", files=SIZED)

    case("calibrate", "no-source", 2, None, "calibrate")
    case("calibrate", "log-not-yet", 3, None, "calibrate", "--log", "engine.log")
    case("calibrate", "table-not-yet", 3, None, "calibrate", "--table", "ops.csv")
    case("calibrate", "model-missing", 2, None, "calibrate", "--local", "--model", "gone")
    case("calibrate", "model-folder-empty", 2, {"m/readme": "x"}, "calibrate", "--local", "--model", "m")
    case("calibrate", "model-format-not-yet", 3, {"m/model.safetensors": ""}, "calibrate", "--local", "--model", "m")
    case("calibrate", "output-cannot-be-made", 2, {"file": "x"}, "calibrate", "--local", "--quick", "-o", "file/p.json")
    options_of("calibrate", "--local")


def serving():
    case("serve", "plan-file-missing", 2, None, "serve", "gone.json")
    case("serve", "model-missing", 2, None, "serve", "--model", "gone", "--port", "0")
    case("serve", "no-workers", 2, None, "serve", "--workers", "0", "--port", "0")
    case("serve", "unknown-router", 2, None, "serve", "--router", "least_lod", "--port", "0")
    case("serve", "wrong-port", 2, None, "serve", "--port", "70000")
    case("serve", "unknown-host", 2, None, "serve", "--host", "no.such.host.invalid", "--port", "0")
    case("serve", "port-in-use", 2, None, "serve", "--port", "PORT", port=True)
    case("serve", "plan-of-another-machine", 3, {"p.json": plan(pools=pool(instance_type="g6.xlarge"))}, "serve", "p.json")
    case("deploy", "dry-run", 0, {"p.json": plan()}, "deploy", "p.json", "--dry-run")
    case("deploy", "dry-run-json", 0, {"p.json": plan()}, "deploy", "p.json", "--dry-run", "--json")
    case("deploy", "port-in-use", 2, {"p.json": plan()}, "deploy", "p.json", "--port", "PORT", port=True, says_first=True)
    case("deploy", "port-in-use-json", 2, {"p.json": plan()}, "deploy", "p.json", "--port", "PORT", "--json", port=True)
    case("deploy", "unknown-backend", 2, {"p.json": plan()}, "deploy", "p.json", "--backend", "locl")
    case("deploy", "backend-not-yet", 3, {"p.json": plan()}, "deploy", "p.json", "--backend", "kubernetes")
    case("deploy", "plan-of-another-machine", 3, {"p.json": plan(pools=pool(instance_type="g6.xlarge"))}, "deploy", "p.json")
    case("deploy", "unknown-model", 2, {"p.json": plan(pools=pool(model="embeded"))}, "deploy", "p.json", "--dry-run")
    case("deploy", "wrong-replicas", 2, {"p.json": plan(pools=pool(replicas=-1))}, "deploy", "p.json", "--dry-run")
    for command in ["serve", "deploy"]:
        after = ["--dry-run"] if command == "deploy" else ["--port", "0"]
        document_mistakes(command, plan(), *after, schema="orrery.request.v1", unknown_key={"pool": []})
        options_of(command, "p.json", files={"p.json": plan()})
    del CASES[next(i for i, c in enumerate(CASES) if c[:2] == ("serve", "no-file-named"))]  # serves the default model

    case("status", "nothing-runs", 1, None, "status")
    case("status", "nothing-runs-json", 1, None, "status", "--json")
    case("status", "argument-too-many", 2, None, "status", "all")
    options_of("status")
    case("stop", "nothing-runs", 0, None, "stop")
    case("stop", "nothing-runs-json", 0, None, "stop", "--json")
    case("stop", "wrong-timeout", 2, None, "stop", "--timeout", "soon")
    options_of("stop")

    url = ["--url", "http://127.0.0.1:9"]
    case("replay", "nothing-listens", 2, None, "replay", SAMPLE, *url)
    case("replay", "nothing-listens-json", 2, None, "replay", SAMPLE, *url, "--json")
    case("replay", "no-url", 2, None, "replay", SAMPLE)
    case("replay", "wrong-url", 2, None, "replay", SAMPLE, "--url", "ftp://localhost")
    case("replay", "speed-zero", 2, None, "replay", SAMPLE, *url, "--speed", "0")
    case("replay", "against-missing", 2, None, "replay", SAMPLE, *url, "--against", "gone.json")
    case("replay", "against-another-document", 2, GOOD, "replay", SAMPLE, *url, "--against", "s.json")
    # Its rows are read while they are sent: a server must be there (live_test.py).
    trace_mistakes("replay", *url, but=["bad-rows", "broken-json-line"])
    options_of("replay", SAMPLE, *url)


def checking():
    case("catalog", "good", 0, None, "catalog", "instances", "g6f.")
    case("catalog", "good-json", 0, None, "catalog", "gpus", "l4", "--json")
    case("catalog", "overview", 0, None, "catalog")
    case("catalog", "unknown-kind", 2, None, "catalog", "model")
    case("catalog", "unknown-entry", 2, None, "catalog", "models", "llama-3.1-8bb")
    case("catalog", "mig-not-yet", 3, None, "catalog", "mig")
    options_of("catalog")

    made = {"made": ["simulate", "s.json", "-o", "run", "--journal"]}
    router = "run/router.journal"
    case("journal verify", "good", 0, GOOD, "journal", "verify", router, **made)
    case("journal verify", "good-folder", 0, GOOD, "journal", "verify", "run", **made)
    case("journal verify", "good-json", 0, GOOD, "journal", "verify", router, "--json", **made)
    case("journal verify", "cut", 1, GOOD, "journal", "verify", router, cut=router, **made)
    case("journal verify", "changed", 1, GOOD, "journal", "verify", router, flip=router, says_first=True, **made)
    case("journal verify", "changed-in-a-folder-json", 1, GOOD, "journal", "verify", "run", "--json", flip=router,
         says_first=True, **made)
    case("journal verify", "folder-without-journals", 2, {"run/x": ""}, "journal", "verify", "run")
    case("journal dump", "good", 0, GOOD, "journal", "dump", router, "--records", "5", **made)
    case("journal dump", "good-json", 0, GOOD, "journal", "dump", router, "--records", "2", "--json", **made)
    case("journal dump", "cut", 2, GOOD, "journal", "dump", router, "--json", cut=router, **made)
    case("journal dump", "is-a-folder", 2, GOOD, "journal", "dump", "run", **made)
    case("journal dump", "negative-records", 2, GOOD, "journal", "dump", router, "--records", "-1", **made)
    for command in ["journal verify", "journal dump"]:
        words = command.split()
        case(command, "file-missing", 2, None, *words, "gone.journal")
        case(command, "no-file-named", 2, None, *words)
        case(command, "not-a-journal", 2, {"t.csv": AZURE}, *words, "t.csv")
        case(command, "empty-file", 2, {"e.journal": ""}, *words, "e.journal")
        options_of(command, "e.journal", files={"e.journal": ""})


class Commands(golden.GoldenTest):
    script = Path(__file__).name

    def commands_of_help(self):
        text = self.folder().run("--help").stdout.split("Understood, not in this build")[0]
        return re.findall(r"^  ([a-z]+(?: [a-z]+)?)  ", text, re.MULTILINE)

    def test_every_command_has_its_help_and_its_bad_input(self):
        folder = self.folder()
        for command in self.commands_of_help():
            with self.subTest(command=command):
                args = [*command.split(), "--help"]
                done = folder.run(*args)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.compare(f"{command.replace(' ', '-')}/help", folder.golden(args, done))
                self.assertTrue(any(c[0] == command and c[2] == 2 for c in CASES), "no case of bad input")

    def test_no_golden_file_is_left_of_a_case_that_is_gone(self):
        known = {f"{c[0].replace(' ', '-')}/{c[1]}.txt" for c in CASES}
        known |= {f"{command.replace(' ', '-')}/help.txt" for command in self.commands_of_help()}
        there = {str(path.relative_to(golden.EXPECTED)) for path in golden.EXPECTED.glob("*/*.txt")
                 if path.parent.name != "live"}
        if golden.UPDATE:
            for name in there - known:
                (golden.EXPECTED / name).unlink()
        else:
            self.assertEqual(there - known, set())


def hold_port(test):
    held = socket.socket()
    test.addCleanup(held.close)
    held.bind(("127.0.0.1", 0))
    held.listen()
    return str(held.getsockname()[1])


def damage(path, cut, flip):
    data = path.read_bytes()
    if cut:
        data = data[:-5]
    if flip:
        middle = len(data) // 2
        data = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1:]
    path.write_bytes(data)


def test_of(command, name, code, files, args, options):
    def test(self):
        folder = self.folder(files)
        if "made" in options:
            done = folder.run(*options["made"])
            self.assertEqual(done.returncode, 0, done.stderr)
        for kind in ("cut", "flip"):
            if kind in options:
                damage(folder.path / options[kind], kind == "cut", kind == "flip")
        words = list(args)
        if options.get("port"):
            port = hold_port(self)
            folder.hidden.append((port, "PORT"))
            words = [port if word == "PORT" else word for word in words]
        done = folder.run(*words, env=options.get("env"))
        if options.get("wall"):
            done.stdout = re.sub(r" in \d[\d.]* \w+ \(\S+ requests/s\)", " in T (N requests/s)", done.stdout)
        self.compare(f"{command.replace(' ', '-')}/{name}", folder.golden(words, done, options.get("shape")))
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        if code in (2, 3) and not options.get("says_first"):
            self.assert_refused_cleanly(done)
        elif "--json" in words and not options.get("says_first"):
            self.assertEqual(done.stderr, "")
    return test


for add in (top_level, trace, twin, planning, serving, checking):
    add()
for one in CASES:
    method = f"test_{one[0]}_{one[1]}".replace(" ", "_").replace("-", "_")
    assert not hasattr(Commands, method), method
    setattr(Commands, method, test_of(*one))

if __name__ == "__main__":
    Commands.orrery = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
