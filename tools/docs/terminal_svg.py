#!/usr/bin/env python3
"""Draws the real output of commands as a picture of a terminal.

usage: terminal_svg.py OUT.svg [--columns N] -- 'COMMAND' ['COMMAND'…]

Each command runs in a shell on a pseudo-terminal in the source tree, so that colours are those of
a terminal; `orrery` is build/tools/orrery/orrery, or $ORRERY_BIN.
"""
import argparse
import html
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("ORRERY_BIN", ROOT / "build/tools/orrery/orrery"))
COLOURS = {"1": "font-weight:bold", "2": "fill:#8b949e", "31": "fill:#ff7b72", "32": "fill:#7ee787",
           "33": "fill:#e3b341"}
WIDTH, HEIGHT, SIZE = 8.0, 18, 13  # of a cell, in pixels; of the letters


def run(command):
    parent, child = pty.openpty()
    env = dict(os.environ, TERM="xterm", PATH=f"{BINARY.parent}:{os.environ['PATH']}")
    env.pop("NO_COLOR", None)
    process = subprocess.Popen(["bash", "-c", command], stdout=child, stderr=subprocess.DEVNULL,
                               stdin=subprocess.DEVNULL, cwd=ROOT, env=env)
    os.close(child)
    output = b""
    while True:
        try:
            part = os.read(parent, 65536)
        except OSError:  # the command has ended
            break
        if not part:
            break
        output += part
    if process.wait() not in (0, 1):
        sys.exit(f"{command}: exit {process.returncode}")
    return output.decode().replace("\r\n", "\n").rstrip("\n").split("\n")


def spans(line):
    style, out = "", []
    for piece in re.split(r"(\x1b\[[0-9;]*m)", line):
        code = re.fullmatch(r"\x1b\[([0-9;]*)m", piece)
        if code:
            style = COLOURS.get(code[1], "")
        elif piece:
            attribute = f' style="{style}"' if style else ""
            out.append(f"<tspan{attribute}>{html.escape(piece)}</tspan>")
    return "".join(out)


def plain(line):
    return re.sub(r"\x1b\[[0-9;]*m", "", line)


def draw(lines):
    columns = max(len(plain(line)) for line in lines)
    width, height = int(columns * WIDTH + 40), len(lines) * HEIGHT + 40
    rows = [f'<text x="20" y="{30 + i * HEIGHT}" xml:space="preserve">{spans(line)}</text>'
            for i, line in enumerate(lines)]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="ui-monospace,Menlo,Consolas,monospace" '
            f'font-size="{SIZE}" fill="#e6edf3">\n'
            f'<rect width="100%" height="100%" rx="8" fill="#0d1117"/>\n' + "\n".join(rows) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--columns", type=int, default=120, help="longer lines are cut")
    parser.add_argument("commands", nargs="+")
    args = parser.parse_args()
    lines = []
    for command in args.commands:
        if lines:
            lines.append("")
        lines.append(f"\x1b[2m$\x1b[0m \x1b[1m{command}\x1b[0m")
        for line in run(command):
            lines.append(line if len(plain(line)) <= args.columns else plain(line)[:args.columns - 1] + "…")
    args.out.write_text(draw(lines))
    print(f"{args.out}: {len(lines)} lines")


if __name__ == "__main__":
    main()
