#!/usr/bin/env python3
"""Checks what no compiler and no formatter does, in every file of the project's own.

    style.py [ROOT]                 prints each fault; exit status 1 if there is one
    style.py [ROOT] --functions     prints the lines and the place of each function's body of more than one line
"""

import os
import pathlib
import re
import sys

MAX_LINES = 500
MAX_BODY = 71  # lines between the braces of a function
MAX_PICTURE = 60_000  # bytes
UNFINISHED = re.compile(r"\b(TODO|FIXME)\b")
RAW_STRING = re.compile(r'R"(\w*)\(.*?\)\1"', re.S)
# The head of a function does not begin with one of these.
NO_FUNCTION = re.compile(r"\s*(?:namespace|class|struct|union|enum|extern|template|if|for|while|do|switch|case)\b|\s*\}")
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


def functions(text, longer_than):
    """The last line and the lines of the body of each function with a longer body, of more than one line.

    It relies on the format: the closing brace of a function is as far from the margin as the first line of its head.
    """
    lines = RAW_STRING.sub(lambda match: ("\n" + " " * 80) * match.group(0).count("\n"), text).split("\n")
    heads = []  # (distance from the margin, index of the last line that began there), outermost first
    for number, line in enumerate(lines):
        begin = line.lstrip()
        if not begin or begin.startswith(("#", "//")):
            continue
        margin = len(line) - len(begin)
        while heads and heads[-1][0] > margin:
            heads.pop()
        head = heads.pop()[1] if heads and heads[-1][0] == margin else number
        heads.append((margin, number))
        if begin[0] != "}" or number - head <= longer_than or NO_FUNCTION.match(lines[head]):
            continue
        opened = next((at for at in range(head, number) if lines[at].endswith("{")), number)
        is_function = any("(" in line for line in lines[head : opened + 1])
        if is_function and number - opened - 1 > longer_than:
            yield number + 1, number - opened - 1


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
    if path.suffix in (".h", ".cc"):
        for number, length in functions(text, MAX_BODY):
            faults.append((number, f"ends a function of {length} lines; {MAX_BODY} at most"))
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
    arguments = [argument for argument in sys.argv[1:] if argument != "--functions"]
    root = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).parents[2]).resolve()
    if "--functions" in sys.argv:
        for path in files(root):
            if path.suffix in (".h", ".cc"):
                for number, length in functions(path.read_text(encoding="utf-8"), 0):
                    print(f"{length:3} {path.relative_to(root)}:{number}")
        return 0
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
