#!/usr/bin/env python3
"""Finds large classes of the product whose head does not say why they are large.

    classes.py [ROOT]     prints each; exit status 1 if there is one
    classes.py --all [ROOT]     prints methods, fields and name of every class

A class with more methods or fields than these has a comment above it that says "more than 25 methods", or "more than 15
fields", with the reason. Counted are declarations in the class itself: not those of classes inside it, nor what is
defaulted or deleted. A struct that only holds data (options, formats) may have any number of fields.
"""

import pathlib
import re
import sys

MAX_METHODS = 25
MAX_FIELDS = 15
FOLDERS = ("store", "rdma", "client", "server", "tools", "bench")
REASON = re.compile(rf"more than (?:{MAX_METHODS} methods|{MAX_FIELDS} fields)")

HEAD = re.compile(r"\b(class|struct)\s+(?:\w+\([^)]*\)\s+)?([A-Za-z_][\w:]*)\s*(?:final\s*)?(?::(?!:)[^;{]*)?\{")
ACCESS = re.compile(r"\b(?:public|private|protected)\s*:(?!:)")
NO_MEMBER = ("using", "friend", "static_assert", "enum", "struct", "class", "typedef", "union")
ATTRIBUTE = re.compile(r"\bABSL_\w+\([^()]*(?:\([^()]*\))?[^()]*\)")
INITIALIZED = re.compile(r"^[\w:&*\s,]+\b\w+\s*(?:=|\{|\[)")


def blanked(text):
    """The text with comments and literals as blanks: every other character stays where it is."""

    def blank(match):
        return re.sub(r"[^\n]", " ", match.group(0))

    return re.sub(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'", blank, text, flags=re.S)


def members(code, begin):
    """The declarations of the class whose body begins here, each with {} for what its braces hold."""
    depth, current = 1, ""
    for at in range(begin, len(code)):
        character = code[at]
        if character == "{":
            depth += 1
            current += "{" if depth == 2 else ""
        elif character == "}":
            depth -= 1
            if depth == 0:
                return
            current += "}" if depth == 1 else ""
            if depth == 1 and is_body(current):
                yield current
                current = ""
        elif depth == 1 and character == ";":
            yield current
            current = ""
        elif depth == 1:
            current += character
    raise ValueError("a class without an end")


def plain(member):
    """Without access specifiers, attributes and template arguments."""
    member = ATTRIBUTE.sub("", ACCESS.sub("", member)).strip()
    before = None
    while before != member:
        before, member = member, re.sub(r"<[^<>]*>", "", member)
    return re.sub(r"^template\s+", "", member)


def is_body(member):
    """Whether the braces that just closed were those of a function, and not of a default argument."""
    member = plain(member)
    if member.count("(") != member.count(")"):
        return False
    return member.startswith(NO_MEMBER) is False and "(" in member and not INITIALIZED.match(member.split("(")[0] + " ")


def count(code, begin):
    methods = fields = 0
    for member in members(code, begin):
        member = plain(member)
        if not member or member.startswith(NO_MEMBER) or re.search(r"=\s*(?:default|delete)$", member):
            continue
        if member.startswith("static constexpr") and "(" not in member.split("=")[0]:
            continue
        if "(" in member and not INITIALIZED.match(member.split("(")[0] + " "):
            methods += 1
        else:
            fields += re.sub(r"\{\}|=[^,]*", "", member).count(",") + 1
    return methods, fields


def classes_of(text):
    """Of each class: its line, kind, name, methods, fields, and the comment above it."""
    code = blanked(text)
    lines = text.split("\n")
    for head in HEAD.finditer(code):
        line = code.count("\n", 0, head.start())
        above = line
        while above > 0 and re.match(r"\s*(?://|template\b|requires\b)", lines[above - 1]):
            above -= 1
        comment = re.sub(r"\s*\n\s*//+\s*", " ", "\n".join(lines[above:line]))
        yield line + 1, head.group(1), head.group(2), *count(code, head.end()), comment


def is_unexplained(kind, methods, fields, comment):
    is_data = kind == "struct" and methods <= 3
    return (methods > MAX_METHODS or fields > MAX_FIELDS and not is_data) and not REASON.search(comment)


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--all"]
    root = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).parents[2]).resolve()
    total = failed = 0
    for folder in FOLDERS:
        for path in sorted([*(root / folder).rglob("*.h"), *(root / folder).rglob("*.cc")]):
            for line, kind, name, methods, fields, comment in classes_of(path.read_text(encoding="utf-8")):
                total += 1
                where = f"{path.relative_to(root)}:{line}"
                if "--all" in sys.argv:
                    print(f"{methods:4} {fields:4} {name}  {where}")
                elif is_unexplained(kind, methods, fields, comment):
                    failed += 1
                    print(f"{where}: {name}: {methods} methods and {fields} fields, {MAX_METHODS} and {MAX_FIELDS} at most"
                          ' without a reason above it ("The class has more than ... methods, because ...")')  # fmt: skip
    print(f"{total} classes, {failed} faults")
    return 1 if failed or total == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
