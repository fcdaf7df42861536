#!/usr/bin/env python3
"""Checks the tree's own habits.

usage: check_tidy.py SOURCE_ROOT

Over the files git knows (all files where there is no git):
  * no C++ file of more than 520 lines, no function body of more than 80: what we aim at is 500
    and 70, what we refuse leaves room for a table. LONGER names those that may be, with why
  * headers start with a comment that says what they are, then #pragma once
  * every .cpp is named in the meson.build of its folder or of a folder above
  * in no text file (whatever its name) a machine path, a note to self or a word about how the
    project is being made; no tabs or trailing blanks in code
  * no clock, thread or standard distribution named in runtime/base and runtime/policy
"""
import re
import subprocess
import sys
from pathlib import Path

FILE_LINES, FUNCTION_LINES = 520, 80
# File: how many lines it may have, and why.
LONGER = {"runtime/serve/gateway.cpp": 540}  # one state machine of a connection
CODE = {".h", ".hpp", ".cuh", ".cpp", ".cc", ".cu", ".inl"}
# Written in pieces, so that this file passes its own check.
BANNED = [
    (re.compile(r"/(?:home|root|Users|workspace)/[A-Za-z0-9_.]|/wor" r"k/[A-Za-z0-9_.]"), "a path of one machine"),
    (re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b"), "a note to self"),
    (re.compile(r"\b(?:Cla" r"ude|Anth" r"ropic|Copi" r"lot|A" r"I[- ](?:generated|assisted|written)|sub-?age" r"nts?"
                r"|prompt engi" r"neering|audit fin" r"dings?|this sess" r"ion's work|shared fol" r"der|the bri" r"ef says)\b", re.I),
     "a word about how the project is being made"),
]
PURE = ("runtime/base/", "runtime/policy/")
IMPURE = re.compile(r"\bstd::(?:\w*_distribution|shuffle|thread|mutex|random_device|chrono)\b")
FUNCTION_END = re.compile(r"^}\s*(?://.*)?$")


def files_of(root):
    try:
        listed = subprocess.run(["git", "-C", str(root), "ls-files", "-co", "--exclude-standard"],
                                check=True, capture_output=True, text=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        listed = [p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file()]
    return sorted(name for name in set(listed) if (root / name).is_file() and not name.startswith("build"))


def strip_code(lines):
    """Lines without comments and literals, so that braces in them do not count."""
    inside = False
    for line in lines:
        out = ""
        i = 0
        while i < len(line):
            if inside:
                end = line.find("*/", i)
                if end < 0:
                    break
                inside, i = False, end + 2
                continue
            two = line[i:i + 2]
            if two == "//":
                break
            if two == "/*":
                inside, i = True, i + 2
                continue
            if line[i] == '"' or (line[i] == "'" and not (i and line[i - 1].isalnum())):
                quote, i = line[i], i + 1
                while i < len(line) and line[i] != quote:
                    i += 2 if line[i] == "\\" else 1
                i += 1
                continue
            out += line[i]
            i += 1
        yield out


def long_functions(lines, most):
    """(line, length) of brace blocks that hold code, sit in a function header's place and are long.

    A block counts as a function when the text before its brace ends in ')' or a specifier and it is
    not nested in another such block."""
    depth, start, start_depth, before = 0, None, 0, ""
    for number, code in enumerate(strip_code(lines), 1):
        for c in code:
            if c == "{":
                head = before.strip()
                opens = re.search(r"\)(?:\s*(?:const|noexcept|override|final|mutable|->\s*[\w:<>&*, ]+))*\s*$", head)
                control = re.search(r"^(?:if|for|while|switch|namespace|struct|class|enum|union)\b", head)
                if start is None and opens and not control:
                    start, start_depth = number, depth
                depth += 1
                before = ""
            elif c == "}":
                depth -= 1
                if start is not None and depth == start_depth:
                    if number - start + 1 > most:
                        yield start, number - start + 1
                    start = None
                before = ""
            elif c == ";":
                before = ""
            else:
                before += c
        before += " "


def check_header(name, lines):
    if not lines or not lines[0].startswith("//"):
        yield f"{name}:1: a header starts with a comment that says what it is"
    if "#pragma once" not in lines[:60]:
        yield f"{name}: no '#pragma once' near the top"


def built_sources(root, names):
    """Per folder, the text of its meson.build."""
    return {str(Path(n).parent): (root / n).read_text() for n in names if Path(n).name == "meson.build"}


def is_built(name, builds):
    path = Path(name)
    for folder in path.parents:
        text = builds.get(str(folder))
        if text is None:
            continue
        relative = path.relative_to(folder).as_posix()
        if f"'{relative}'" in text or f"'{relative.removesuffix(path.suffix)}'" in text:
            return True
    return False


def check_file(root, name, builds):
    path = root / name
    suffix = path.suffix
    data = path.read_bytes()
    if b"\0" in data[:8192]:
        return  # no text
    text = data.decode(errors="replace")
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        for pattern, what in BANNED:
            if pattern.search(line):
                yield f"{name}:{number}: {what}: {line.strip()[:80]}"
    if suffix not in CODE:
        return
    most = LONGER.get(name, FILE_LINES)
    if len(lines) > most:
        yield f"{name}: {len(lines)} lines, at most {most}"
    for number, line in enumerate(lines, 1):
        if line != line.rstrip() or "\t" in line:
            yield f"{name}:{number}: a tab or blanks at the end of the line"
    for number, length in long_functions(lines, FUNCTION_LINES):
        yield f"{name}:{number}: a function of {length} lines, at most {FUNCTION_LINES}"
    if suffix in (".h", ".hpp", ".cuh"):
        yield from check_header(name, lines)
    if suffix == ".cpp" and not is_built(name, builds):
        yield f"{name}: no meson.build names it: a dead file"
    if name.startswith(PURE):
        for number, line in enumerate(lines, 1):
            match = IMPURE.search(line.split("//", 1)[0])
            if match:
                yield f"{name}:{number}: {match[0]} in a pure room"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = Path(sys.argv[1]).resolve()
    names = files_of(root)
    builds = built_sources(root, names)
    problems = [p for name in names for p in check_file(root, name, builds)]
    for problem in problems:
        print(problem)
    print(f"{len(names)} files, {len(problems)} problems")
    return 1 if problems or not names else 0


if __name__ == "__main__":
    sys.exit(main())
