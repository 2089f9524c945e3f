#!/usr/bin/env python3
"""Checks what no compiler and no formatter does, in every file of the project's own.

    style.py [ROOT]     prints each fault; exit status 1 if there is one
"""

import os
import pathlib
import re
import sys

MAX_LINES = 500
MAX_PICTURE = 60_000  # bytes
UNFINISHED = re.compile(r"\b(TODO|FIXME)\b")
# Whole texts of others, and this file, which names what it looks for.
EXEMPT = {"LICENSE", "tests/lint/style.py", "tests/lint/style_test.py"}
# Bytes that are anything.
CORPUS = "tests/fuzz/corpus/"


def files(root):
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(("build", ".")) and name != "__pycache__" or name == ".ci"
        )
        for name in sorted(names):
            path = pathlib.Path(folder, name)
            name = path.relative_to(root).as_posix()
            if name not in EXEMPT and not name.startswith(CORPUS) and path.is_file():
                yield path


def faults_of(path):
    if path.suffix == ".png":
        size = path.stat().st_size
        return [(1, f"has {size} bytes; {MAX_PICTURE} at most")] if size > MAX_PICTURE else []
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return [(1, "is not UTF-8 text")]
    lines = text.split("\n")
    faults = []
    if len(lines) - 1 > MAX_LINES and path.suffix != ".md":
        faults.append((len(lines) - 1, f"has more than {MAX_LINES} lines"))
    if text and not text.endswith("\n"):
        faults.append((len(lines), "has no newline at its end"))
    for number, line in enumerate(lines, 1):
        if "\t" in line:
            faults.append((number, "has a tab"))
        if line != line.rstrip():
            faults.append((number, "has blanks at its end"))
        if UNFINISHED.search(line):
            faults.append((number, "is unfinished"))
    return faults


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2]).resolve()
    count = failed = 0
    for path in files(root):
        count += 1
        for number, fault in faults_of(path):
            failed += 1
            print(f"{path.relative_to(root)}:{number}: {fault}")
    print(f"{count} files, {failed} faults")
    return 1 if failed or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
