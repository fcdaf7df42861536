"""Golden output: a command runs in a folder of its own, and what it printed is compared with a file.

A golden file holds the command line, the exit code, stdout and stderr, with what varies from run to
run replaced: folders, ports, process ids, wall time, dates of today. `shape` replaces more:
  "numbers"  every number of a text by N, with the columns' widths (measured figures)
  "json"     every value of a JSON document by its type (the keys are the contract)
"""
import json
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXPECTED = Path(__file__).resolve().parent / "expected"
UPDATE = bool(os.environ.get("ORRERY_UPDATE_GOLDEN"))

# What is of this machine and this day in otherwise exact text.
VARIES = [
    (r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00", "NOW"),
    (r"/runs/\d{8}T\d{6}Z(-\d+)?", "/runs/RUN"),
    (r"\b(unix:|TMP/state/)\S+\.sock\b", "ADDRESS"),
    (r"(send delay p99 [^:]+): (open loop|not open loop\..*)", r"\1: WHETHER OPEN LOOP"),
    (r"\borrery \d+\.\d+\.\d+", "orrery VERSION"),
    (r"\bpid \d+", "pid PID"),
    (r"\d+(\.\d+)?(ms| s) of wall time", "T of wall time"),
]


def json_types(value):
    if isinstance(value, dict):
        return {key: json_types(inner) for key, inner in value.items()}
    if isinstance(value, list):
        kinds = []
        for inner in map(json_types, value):
            if inner not in kinds:
                kinds.append(inner)
        return kinds
    return {bool: "boolean", int: "number", float: "number", str: "string", type(None): "null"}[type(value)]


def without_numbers(text):
    text = re.sub(r"\bhash [0-9a-f]{16}\b", "hash HASH", text)
    text = re.sub(r"(?<![\w.])[+-]?\d[\d,]*(\.\d+)?(e[+-]?\d+)?([kMGT]\b)?", "N", text)
    text = re.sub(r"\bN (us|ms|s|min|h)\b", "N TIME", text)
    return "\n".join(re.sub(r"(?<=\S) {2,}", "  ", line).rstrip() for line in text.split("\n"))


class Folder:
    """A working folder with the shipped scenarios, its own state, and the files of a case."""

    def __init__(self, orrery, files=None, prefix="orr-"):
        self.orrery = orrery
        self._folder = tempfile.TemporaryDirectory(prefix=prefix, dir="/tmp")
        self.path = Path(self._folder.name).resolve()
        (self.path / "scenarios").symlink_to(ROOT / "scenarios")
        self.hidden = []  # (text, word to print instead)
        for name, content in (files or {}).items():
            self.write(name, content)

    def write(self, name, content):
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1) + "\n")

    def env(self, more=None):
        env = {key: value for key, value in os.environ.items() if not key.startswith("ORRERY_")}
        env.update(ORRERY_HOME=str(ROOT), ORRERY_STATE_DIR=str(self.path / "state"), NO_COLOR="1", LC_ALL="C")
        env.update(more or {})
        return env

    def run(self, *args, env=None, timeout=60):
        return subprocess.run([self.orrery, *map(str, args)], cwd=self.path, env=self.env(env), text=True,
                              timeout=timeout, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)

    def scrub(self, text, shape=None):
        if shape == "json" and text.strip():
            return json.dumps(json_types(json.loads(text)), indent=1) + "\n"
        for word, instead in [(str(self.path), "TMP"), (str(ROOT), "SOURCE"), (self.orrery, "ORRERY"), *self.hidden]:
            text = text.replace(word, instead)
        for pattern, instead in VARIES:
            text = re.sub(pattern, instead, text)
        return without_numbers(text) if shape == "numbers" else text

    def golden(self, args, done, shape=None):
        line = self.scrub(" ".join(["orrery", *(f"'{a}'" if " " in str(a) else str(a) for a in args)]))
        text = f"$ {line}\nexit {done.returncode}\n"
        for name, printed, its_shape in [("stdout", done.stdout, shape),
                                         ("stderr", done.stderr, shape and "numbers")]:
            if printed:
                text += f"--- {name}\n{self.scrub(printed, its_shape)}"
        return text

    def close(self):
        self._folder.cleanup()


class GoldenTest(unittest.TestCase):
    maxDiff = None
    orrery = ""

    def folder(self, files=None):
        folder = Folder(self.orrery, files)
        self.addCleanup(folder.close)
        return folder

    def compare(self, name, text):
        """`name`: COMMAND/CASE, the file below expected/."""
        path = EXPECTED / f"{name}.txt"
        if UPDATE:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        if not path.exists() or path.read_text() != text:
            how = f"\n\nTo accept what it prints now: {update_command(self.orrery, type(self).script)}"
            self.assertMultiLineEqual(path.read_text() if path.exists() else "", text, f"expected/{name}.txt{how}")

    def assert_refused_cleanly(self, done):
        """What is refused prints nothing on stdout, and says so without our fault or a stack."""
        self.assertEqual(done.stdout, "", "stdout stays empty when a command is refused")
        self.assertTrue(done.stderr.startswith(("orrery: ", "usage: ")), done.stderr)
        self.assertNotIn("our fault", done.stderr)


def update_command(orrery, script):
    return f"ORRERY_UPDATE_GOLDEN=1 python3 tests/golden/{script} {os.path.relpath(orrery, ROOT)}"
