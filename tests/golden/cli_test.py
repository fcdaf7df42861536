#!/usr/bin/env python3
"""What every command keeps to: help with two examples, exit codes, --json, one-line errors.

usage: cli_test.py ORRERY [unittest arguments]

The list of commands is read from `orrery --help`, so a new command is tested without being
named here.
"""
import json
import os
import pty
import re
import shlex
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ORRERY = ""
COMMON = ["--help", "--json", "--progress", "--seed"]
NOT_YET = "Understood, not in this build yet (exit code 3)"


def run(*args, **more):
    env = dict(os.environ, ORRERY_HOME=str(ROOT), ORRERY_STATE_DIR=STATE.name)
    env.update(more.pop("env", {}))
    return subprocess.run([ORRERY, *args], cwd=more.pop("cwd", ROOT), env=env, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)


def listed():
    """(commands of this build, commands understood but not in it), from the general help."""
    here, missing, target = [], [], None
    for line in run("--help").stdout.splitlines():
        if line == NOT_YET:
            target = missing
        elif line and not line[0].isspace():
            target = here if not line.startswith(("usage:", "Every command", "A digital")) else None
        elif target is not None and line.startswith("  "):
            target.append(re.split(r"\s{2,}", line.strip())[0])
    return here, missing


class Cli(unittest.TestCase):
    def assert_refused(self, done, code, *parts):
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "", "stdout stays empty when a command is refused")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("orrery: "), done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)

    def test_version_in_text_and_json(self):
        self.assertRegex(run("--version").stdout, r"^orrery \d+\.\d+\.\d+\n$")
        self.assertEqual(json.loads(run("--version", "--json").stdout)["name"], "orrery")

    def test_general_help_lists_commands_by_task(self):
        done = run("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(run().stdout, done.stdout)
        here, _ = listed()
        self.assertIn("catalog", here)
        self.assertEqual(len(here), len(set(here)))

    def test_each_command_help_ends_with_two_examples_of_itself(self):
        for command in listed()[0]:
            with self.subTest(command=command):
                done = run(*command.split(), "--help")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                lines = done.stdout.splitlines()
                self.assertEqual(lines[-3], "Examples:")
                for example in lines[-2:]:
                    self.assertIn(f"orrery {command}", example)
                for option in COMMON:
                    self.assertIn(option, done.stdout)
                self.assertEqual(run("help", *command.split()).stdout, done.stdout)

    def test_examples_use_options_and_files_that_exist(self):
        for command in listed()[0]:
            text = run(*command.split(), "--help").stdout
            for example in text.splitlines()[-2:]:
                with self.subTest(example=example.strip()):
                    for word in re.findall(r"(?<![-\w])--[a-z][a-z-]*", example.split("#")[0]):
                        self.assertIn(word, text)
                    for word in shlex.split(example, comments=True):
                        if word.startswith("scenarios/"):
                            self.assertTrue((ROOT / word).exists(), f"{word} is not in the tree")

    def test_commands_not_in_this_build_say_so_with_3(self):
        for command in listed()[1]:
            with self.subTest(command=command):
                self.assert_refused(run(command), 3, command, "not in this build yet")
                self.assert_refused(run(command, "--json", "x"), 3)
                self.assertIn("Not in this build yet", run(command, "--help").stdout)

    def test_unknown_commands_suggest_the_nearest(self):
        self.assert_refused(run("catalgo"), 2, 'found "catalgo"', "did you mean catalog?")
        self.assert_refused(run("xyzzy"), 2, 'found "xyzzy", expected a command; see orrery --help')
        self.assert_refused(run("--jsn", "catalog"), 2, "did you mean --json?")
        self.assert_refused(run("--versoin"), 2, "did you mean --version?")

    def test_unknown_options_suggest_the_nearest_in_every_command(self):
        for command in listed()[0]:
            with self.subTest(command=command):
                done = run(*command.split(), "--jsno", "--help-me-not")
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_wrong_values_of_common_options_are_refused(self):
        self.assert_refused(run("catalog", "--progress", "maybe"), 2, "--progress", "maybe")
        self.assert_refused(run("catalog", "--seed", "x"), 2, "--seed", "x")

    def test_common_options_may_stand_before_the_command(self):
        after = run("catalog", "gpus", "--json", "--seed", "3")
        self.assertEqual(run("--json", "--seed", "3", "catalog", "gpus").stdout, after.stdout)
        json.loads(after.stdout)

    def test_json_is_one_document_and_stderr_is_silent(self):
        done = run("catalog", "gpus", "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        json.loads(done.stdout)

    def test_colour_only_on_a_terminal(self):
        self.assertNotIn("\x1b", run("--help").stdout)
        on_terminal = self.on_terminal({"TERM": "xterm"})
        self.assertIn("\x1b[1m", on_terminal)
        self.assertNotIn("\x1b", self.on_terminal({"TERM": "xterm", "NO_COLOR": "1"}))

    def on_terminal(self, env):
        parent, child = pty.openpty()
        process = subprocess.Popen([ORRERY, "--help"], stdout=child, stderr=child,
                                   stdin=subprocess.DEVNULL, env={**os.environ, "NO_COLOR": "", **env})
        os.close(child)
        output = b""
        while True:
            try:
                part = os.read(parent, 4096)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            output += part
        process.wait(timeout=20)
        os.close(parent)
        return output.decode()

    def test_a_reader_that_leaves_early_is_no_error(self):
        script = f"{shlex.quote(ORRERY)} catalog instances --json | head -c 10; exit ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60,
                              env=dict(os.environ, ORRERY_HOME=str(ROOT)))
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_full_disk_is_reported(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full here")
        with open("/dev/full", "w") as full:
            done = subprocess.run([ORRERY, "--help"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("standard output", done.stderr)

    def test_data_that_is_not_found_is_named(self):
        with tempfile.TemporaryDirectory() as empty:
            self.assert_refused(run("catalog", env={"ORRERY_HOME": empty}), 2, "ORRERY_HOME", empty)

    def test_works_from_any_folder_without_ORRERY_HOME(self):
        if not Path(ORRERY).is_relative_to(ROOT):
            self.skipTest("the build folder is outside the source tree")
        with tempfile.TemporaryDirectory() as elsewhere:
            done = run("catalog", "gpus", cwd=elsewhere, env={"ORRERY_HOME": ""})
            self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    ORRERY = str(Path(sys.argv.pop(1)).resolve())
    STATE = tempfile.TemporaryDirectory()
    unittest.main()
