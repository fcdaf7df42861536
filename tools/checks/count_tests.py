#!/usr/bin/env python3
"""Counts test cases from Meson's log of the last run and prints "N passed, N failed".

usage: count_tests.py BUILD_FOLDER MESON_STATUS

A GoogleTest program counts by its cases, a Python unittest script too; any other program
is one case. A program that ended badly without a failed case (crash, timeout) is one more
failure. Exits with 1 if anything failed, if Meson did, or if nothing ran.
"""
import json
import re
import sys
from pathlib import Path


def last_number(pattern, text):
    found = re.findall(pattern, text, re.MULTILINE)
    return int(found[-1]) if found else 0


def count(test):
    """(passed, failed, skipped) of one test program."""
    output = test.get("stdout", "") + "\n" + test.get("stderr", "")
    if "[==========]" in output:
        passed = last_number(r"^\[  PASSED  \] (\d+) tests?", output)
        failed = last_number(r"^\[  FAILED  \] (\d+) tests?, listed", output)
        skipped = last_number(r"^\[  SKIPPED \] (\d+) tests?", output)
    elif re.search(r"^Ran \d+ tests? in", output, re.MULTILINE):
        failed = last_number(r"failures=(\d+)", output) + last_number(r"errors=(\d+)", output)
        skipped = last_number(r"skipped=(\d+)", output)
        passed = last_number(r"^Ran (\d+) tests? in", output) - failed - skipped
    else:
        ok = test["result"] in ("OK", "EXPECTEDFAIL")
        skip = test["result"] == "SKIP"
        return int(ok), int(not ok and not skip), int(skip)
    if test["result"] not in ("OK", "EXPECTEDFAIL", "SKIP") and failed == 0:
        failed = 1
    return passed, failed, skipped


def main():
    folder, status = Path(sys.argv[1]), int(sys.argv[2])
    log = folder / "meson-logs" / "testlog.json"
    totals = [0, 0, 0]
    bad = []
    for line in log.read_text().splitlines() if log.exists() else []:
        test = json.loads(line)
        numbers = count(test)
        totals = [a + b for a, b in zip(totals, numbers)]
        if numbers[1]:
            bad.append(f"{test['name']} ({test['result']})")
    passed, failed, skipped = totals
    if status != 0 and failed == 0:
        failed = 1  # Meson itself failed
    for name in bad:
        print(f"FAILED: {name}")
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
