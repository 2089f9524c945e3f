#!/usr/bin/env python3
"""Compares the figures of docs/reference/memory-format.md with the headers that define the format.

A table whose first columns are `constant` and `value` has constants of the headers. One with the columns `offset`,
`bytes` and the name of a struct has all fields of it.

    formats.py [ROOT]     prints each fault; exit status 1 if there is one
"""

import pathlib
import re
import sys

PAGE = "docs/reference/memory-format.md"
HEADERS = "store/format/memory"

CONSTANT = re.compile(r"^inline constexpr [\w:]+ (k\w+) =\s*([^;{}]*(?:\{[^{}]*\}[^;{}]*)*);", re.MULTILINE)
STRUCT = re.compile(r"^struct (?:alignas\(\d+\) )?(\w+) \{\n(.*?)^\};", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"^  (?:std::array<std::uint(\d+)_t, (\w+)>|std::uint(\d+)_t) (\w+)(?:\[(\d+)\])?;", re.MULTILINE)
EXPRESSION = re.compile(r"[\d\s()+\-*/<>]+")


class Format:
    """The constants and structs of the headers."""

    def __init__(self, text):
        text = re.sub(r"//[^\n]*", "", text)
        self.expressions = dict(CONSTANT.findall(text))
        self.structs = dict(STRUCT.findall(text))

    def fields(self, name):
        """(offset, size, field) of each field. The structs of a format have no padding, as their headers assert."""
        offset = 0
        for array_bits, count, bits, field, length in FIELD.findall(self.structs[name]):
            size = int(array_bits or bits) // 8 * (self.value(count) if count else int(length or 1))
            yield offset, size, field
            offset += size

    def value(self, name):
        if name not in self.expressions:
            raise ValueError(f"{name} is no constant of {HEADERS}")
        return self.evaluate(self.expressions[name])

    def evaluate(self, expression):
        expression = re.sub(r"std::\w+\{(\w+)\}", r"\1", expression)
        expression = re.sub(r"sizeof\((\w+)\)", lambda match: str(self.size(match.group(1))), expression)
        expression = re.sub(r"\bk\w+", lambda match: str(self.value(match.group())), expression)
        expression = re.sub(r"\b0x[0-9a-f]+\b", lambda match: str(int(match.group(), 16)), expression)
        if not EXPRESSION.fullmatch(expression):
            raise ValueError(f"cannot evaluate {expression}")
        return eval(expression.replace("/", "//"))  # of numbers and operators only

    def size(self, name):
        return 8 if name == "std::uint64_t" else sum(size for _, size, _ in self.fields(name))


def number(text):
    return int(text.replace(",", ""))


def tables(text):
    """(cells of the head, [(line, cells)]) of each table."""
    head, rows = None, []
    for line, row in enumerate(text.split("\n") + [""], 1):
        cells = [cell.strip() for cell in row.strip().strip("|").split(" | ")]
        if not row.startswith("|"):
            if head:
                yield head, rows
            head, rows = None, []
        elif head is None:
            head = cells
        elif not re.fullmatch(r"[|\- ]*", row):
            rows.append((line, cells))


def check(root):
    headers = sorted((root / HEADERS).glob("*.h"))
    memory = Format("\n".join(path.read_text(encoding="utf-8") for path in headers))
    checked = 0
    for head, rows in tables((root / PAGE).read_text(encoding="utf-8")):
        if head[:2] == ["constant", "value"]:
            for line, (name, value, *_) in rows:
                checked += 1
                try:
                    true = memory.value(name.strip("`"))
                except ValueError as error:
                    yield f"{PAGE}:{line}: {error}"
                    continue
                if true != number(value):
                    yield f"{PAGE}:{line}: {name} is {true:,}, not {value}"
        elif head[:2] == ["offset", "bytes"]:
            name = head[2].strip("`")
            checked += 1
            if name not in memory.structs:
                yield f"{PAGE}:{rows[0][0]}: {name} is no struct of {HEADERS}"
                continue
            fields = list(memory.fields(name))
            stated = [(number(offset), number(size), field.strip("`")) for _, (offset, size, field, *_) in rows]
            for (line, _), row in zip(rows, stated):
                if row not in fields:
                    yield f"{PAGE}:{line}: {name} has no field {row[2]} of {row[1]} bytes at {row[0]}"
            for field in fields:
                if field[2] not in [row[2] for row in stated]:
                    yield f"{PAGE}:{rows[0][0]}: the field {field[2]} of {name} is missing"
    if checked == 0:
        yield f"{PAGE}:1: has no figures to compare"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2]).resolve()
    faults = list(check(root))
    print(*faults, sep="\n")
    print(f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
