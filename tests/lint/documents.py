#!/usr/bin/env python3
"""Checks the documents: their links, their reach from README.md, their sizes, their pictures, and what they say of
sources. prose.py checks their language.

A path in a code span must exist, and a source that is a word of a command in a code block. The README.md of a folder
of sources may give a path from that folder on, or from the folder of the path before. An item of a numbered list that begins with a source is a stop of a way through the
code. Sources must have each function and class that it names, and this source at least one of them.

    documents.py [ROOT]     prints each fault; exit status 1 if there is one
"""

import functools
import hashlib
import os
import pathlib
import re
import sys

MAX_LINES = {"README.md": 150, "ARCHITECTURE.md": 300, "CONTRIBUTING.md": 120}

# The files that tools/docs puts into the site, beside pages. A link to another file would have no target there.
SITE = re.compile(r"LICENSE$|examples/|docs/diagrams/[\w-]+\.svg$|docs/images/|docs/operating/(alerts\.yml|grafana-dashboard\.json)$")

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`[^`]*`")
FOLDERS = ("store", "rdma", "client", "server", "tools", "bench", "tests", "examples", "docs")
PATH = re.compile(rf"`((?:{'|'.join(FOLDERS)})/[\w/.-]+)`")
# In a code block: a source as a word of a command. A path without an ending may be an output.
ARGUMENT = re.compile(rf"(?<!\S)((?:{'|'.join(FOLDERS)})/[\w/.-]+\.(?:h|cc|c|py|sh|toml))(?!\S)")
# In the README.md of a folder: a file of sources, or a path with a slash. On other pages: a file of C++ by its name alone.
RELATIVE = re.compile(r"`(?=[^`]*[a-z])((?:[\w*.-]+/)*[\w*.-]+\.(?:h|cc|c|py|sh|toml)|(?:[\w*.-]+/)+[\w*.-]*)`")
FILE = re.compile(r"`(\w+\.(?:h|cc))`")
STOP = re.compile(r"\d+\. `([\w/]+)\.(?:h|cc)`:")
# Figures of speed, time and memory have one place, beside the reasons of decisions. Two pages count the code itself.
MEASURED = re.compile(r"(?:^|[.:;] )Measured(?::| (?:by|on|in|with)\b)")
PLACES_OF_FIGURES = ("docs/performance/", "docs/decisions/", "docs/internals/house.md", "docs/internals/coverage.md")

NAME = re.compile(r"`(?:\w+::)*([A-Z]\w*[a-z]\w*)`")


def pages(root):
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith(("build", ".")))
        yield from (pathlib.Path(folder, name) for name in sorted(names) if name.endswith(".md"))


def lines_of(path):
    """(number, line, whether it is code) of each line. Indented lines are code behind a blank line only."""
    is_fenced, is_code, before = False, False, ""
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        is_fence = line.startswith("```")
        is_code = is_fenced or is_fence or line.startswith("    ") and (is_code or not before.strip())
        yield number, line, is_code
        is_fenced ^= is_fence
        before = line


def anchors(path):
    """As GitHub makes them of the headings."""
    headings = (line.lstrip("#").strip() for _, line, is_code in lines_of(path) if line.startswith("#") and not is_code)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(path):
    """(number, target) of each link to a file."""
    for number, line, is_code in lines_of(path):
        if not is_code:
            for target in LINK.findall(CODE.sub("", line)):
                if "://" not in target and not target.startswith("mailto:"):
                    yield number, target


def resolve(path, target):
    """The file that the link leads to, and the anchor in it."""
    name, _, anchor = target.partition("#")
    return (path.parent / name).resolve() if name else path, anchor


def empty_sections(path):
    """(number, heading) of each heading behind which no text comes before the next one of its level or above."""
    heading = None
    for number, line, is_code in lines_of(path):
        level = 0 if is_code else len(line) - len(line.lstrip("#"))
        if heading and level and level <= heading[0]:
            yield heading[1:]
        if line.strip():
            heading = (level, number, line.strip("# ")) if level > 1 else None
    if heading:
        yield heading[1:]


def faults_of(root, path):
    yield from ((number, f"has nothing below the heading {heading}") for number, heading in empty_sections(path))
    name = path.relative_to(root).as_posix()
    for number, target in links(path):
        file, anchor = resolve(path, target)
        if not file.exists():
            yield number, f"links to {target}, which does not exist"
        elif anchor and anchor not in anchors(file):
            yield number, f"links to {target}, which has no such heading"
        elif file.suffix != ".md" and not SITE.match(os.path.relpath(file, root)):
            yield number, f"links to {target}, which tools/docs does not put into the site"
    if not name.startswith(PLACES_OF_FIGURES):
        for number, line, is_code in lines_of(path):
            if not is_code and MEASURED.search(line):
                yield number, "has measured figures: they belong to docs/performance"
    count = len(path.read_text(encoding="utf-8").split("\n"))
    if count - 1 > MAX_LINES.get(name, count):
        yield count - 1, f"has more than {MAX_LINES[name]} lines"


@functools.cache
def words_of(root, pattern):
    """All words of the sources that match."""
    return {word for path in root.glob(pattern) for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))}


def stops(path):
    """(number, source without its ending, names) of each stop."""
    current = None
    for number, line, _ in lines_of(path):
        if stop := STOP.match(line):
            yield from [current] if current else []
            current = (number, stop.group(1), NAME.findall(line))
        elif current and line.startswith("   "):
            current[2].extend(NAME.findall(line))
        elif current:
            yield current
            current = None
    yield from [current] if current else []


def faults_of_sources(root, path):
    for number, line, is_code in lines_of(path):
        for target in (ARGUMENT if is_code else PATH).findall(line):
            if not (root / target).exists():
                yield number, f"names {target}, which does not exist"
    for number, source, names in stops(path):
        known = set().union(*(words_of(root, f"{folder}/**/*.{end}") for folder in FOLDERS[:6] for end in ("h", "cc")))
        yield from ((number, f"names {name}, which no source has") for name in names if name not in known)
        if names and not words_of(root, f"{source}.*").intersection(names):
            yield number, f"names nothing that {source} has"


def exists(folder, path):
    return any(folder.glob(path)) if "*" in path else (folder / path).exists()


def faults_of_relative_paths(root, path):
    """The paths that exist in no folder that they may begin with, and the folders that are not named."""
    before = path.parent
    for number, line, is_code in lines_of(path):
        for target in RELATIVE.findall(line) if not is_code else ():
            folder = next((folder for folder in (path.parent, root, before) if exists(folder, target)), None)
            if folder:
                before = (folder / target).parent
            elif not target.startswith(("build/", *(f"{name}/" for name in FOLDERS))):
                yield number, f"names {target}, which does not exist here"
    text = path.read_text(encoding="utf-8")
    for folder in sorted(path.parent.iterdir()):
        if folder.is_dir() and folder.name != "__pycache__" and not re.search(rf"[`\[/]{folder.name}[/`\]]", text):
            yield 1, f"does not name {folder.name}/"


@functools.cache
def names_of_files(root):
    return {path.name for folder in FOLDERS for end in ("h", "cc") for path in (root / folder).rglob(f"*.{end}")}


def faults_of_names(root, path):
    """The paths of a folder's README.md, or the files that another page names without a folder."""
    name = path.relative_to(root)
    if name.name == "README.md" and name.parts[0] in FOLDERS[:-1]:
        yield from faults_of_relative_paths(root, path)
        return
    for number, line, is_code in lines_of(path):
        for target in FILE.findall(line) if not is_code else ():
            if target not in names_of_files(root):
                yield number, f"names {target}, which no folder has"


def faults_of_pictures(root):
    """The pictures that tools/diagrams has not drawn of today's sources."""
    folder = root / "docs/diagrams"
    names = {path.stem for end in ("dot", "svg") for path in folder.glob(f"*.{end}")}
    for name in sorted(names):
        source, picture = folder / f"{name}.dot", folder / f"{name}.svg"
        if not source.exists():
            yield f"docs/diagrams/{name}.svg:1: has no source {name}.dot"
        elif not picture.exists():
            yield f"docs/diagrams/{name}.dot:1: has no picture; run tools/diagrams"
        elif hashlib.sha256(source.read_bytes()).hexdigest() not in picture.read_text(encoding="utf-8"):
            yield f"docs/diagrams/{name}.svg:1: is of another {name}.dot; run tools/diagrams"


def faults_of_examples(root):
    """The examples that their page does not name."""
    page = root / "examples/README.md"
    if page.exists():
        named = {target for _, target in links(page)}
        for path in sorted(page.parent.iterdir()):
            if path.suffix in (".cc", ".c", ".py") and path.name not in named:
                yield f"examples/README.md:1: does not link to {path.name}"


def reached(root):
    """All pages to which links lead from README.md."""
    found, waiting = set(), [root / "README.md"]
    while waiting:
        path = waiting.pop()
        if path not in found and path.suffix == ".md" and path.exists():
            found.add(path)
            waiting += [resolve(path, target)[0] for _, target in links(path)]
    return found


def check(root):
    found = reached(root)
    for path in pages(root):
        name = path.relative_to(root).as_posix()
        for number, fault in (*faults_of(root, path), *faults_of_sources(root, path), *faults_of_names(root, path)):
            yield f"{name}:{number}: {fault}"
        if path not in found:
            yield f"{name}:1: no link leads here from README.md"
    yield from faults_of_pictures(root)
    yield from faults_of_examples(root)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2]).resolve()
    faults = list(check(root))
    print(*faults, sep="\n")
    count = sum(len(list(links(path))) for path in pages(root))
    print(f"{len(list(pages(root)))} pages, {count} links, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
