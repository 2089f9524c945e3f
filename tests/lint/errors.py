#!/usr/bin/env python3
"""Checks the texts of errors: OPERATION: FAULT; ACTION (docs/style/writing.md).

    errors.py [ROOT]          prints each fault; exit status 1 if there is one
    errors.py [ROOT] --all    prints each text

It finds the literals of each absl status that is made in the product. "{}" stands for an expression between them.
"""

import pathlib
import re
import sys

import prose

# Outcomes that a program expects; a text of this length takes no memory of its own.
OUTCOMES = {"no such key", "the key exists", ""}
FOLDERS = ("store", "rdma", "client", "server", "tools", "bench")

STATUS = re.compile(
    r"\b(?:absl::)?(?:Aborted|AlreadyExists|Cancelled|DataLoss|DeadlineExceeded|FailedPrecondition|Internal|InvalidArgument"
    r"|NotFound|OutOfRange|PermissionDenied|ResourceExhausted|Unauthenticated|Unavailable|Unimplemented|Unknown)Error\("
)
TOKEN = re.compile(r'//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|[()\[\]{},?]|[^\s()\[\]{},?"\'/]+|/', re.S)
PLACES = {"n": "\n", "t": "\t"}


def unquoted(literal):
    return re.sub(r"\\(.)", lambda match: PLACES.get(match.group(1), match.group(1)), literal[1:-1])


def text_of(source, at):
    """The text of the call whose parenthesis opens before `at`: None if it has no literal, or chooses between some."""
    parts, depth, chooses = [], 1, False
    if re.compile(r"\s*(?!absl::|std::)\w+\(").match(source, at):
        return None  # of a function, which adds the operation
    for match in TOKEN.finditer(source, at):
        token = match.group()
        if token.startswith("//"):
            continue
        if token in "([{":
            depth += 1
        elif token in ")]}":
            depth -= 1
            if depth == 0:
                break
        elif token == "?":
            chooses = True
        elif token.startswith('"') and depth <= 2:
            parts.append(unquoted(token))
        elif depth <= 2 and token not in ("absl::StrCat", "absl::StrFormat", ",") and (not parts or parts[-1] != "{}"):
            parts.append("{}")
    return None if chooses or all(part == "{}" for part in parts) else "".join(parts)


def texts(path):
    """(number, text) of each status with a literal."""
    source = path.read_text(encoding="utf-8")
    for match in STATUS.finditer(source):
        text = text_of(source, match.end())
        if text is not None:
            yield source.count("\n", 0, match.start()) + 1, text


def faults_of(text):
    # A caller names the operation of "it"; the text before "; " has it.
    is_continued = re.match(r"its?\b|\{\}; ", text)
    if text not in OUTCOMES and not is_continued and not re.search(r"\S: ", text):
        yield "has no operation before its fault"
    if re.match(r"[A-Z][a-z]", text):
        yield "begins with a capital letter"
    for term in prose.TERM.finditer(text):
        yield f'has the word "{term.group()}": write "{list(prose.TERMS)[term.lastindex - 1]}"'


def all_texts(root):
    """(file, number, text) of all statuses of the product."""
    for folder in FOLDERS:
        for path in sorted(path for path in (root / folder).rglob("*") if path.suffix in (".h", ".cc")):
            yield from ((path.relative_to(root).as_posix(), number, text) for number, text in texts(path))


def check(root):
    for name, number, text in all_texts(root):
        yield from (f'{name}:{number}: "{text}" {fault}' for fault in faults_of(text))


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--all"]
    root = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).parents[2]).resolve()
    if "--all" in sys.argv:
        print(*(f"{name}:{number}: {text}" for name, number, text in all_texts(root)), sep="\n")
        return 0
    faults = list(check(root))
    print(*faults, sep="\n")
    print(f"{len(list(all_texts(root)))} texts, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
