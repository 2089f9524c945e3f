#!/usr/bin/env python3
"""Checks the language of Markdown, and of comments in C++, C, Promela, Python, CMake and shell; of manual pages the terms.

    prose.py [ROOT] [FOLDER...]    prints each fault (of FOLDERs only); exit status 1 if there is one
    prose.py [ROOT] --figures      prints how long the sentences are, and how many have the subject "who" or "whoever"

docs/style/writing.md explains the rules. They hold for every file.
"""

import ast
import io
import os
import pathlib
import re
import statistics
import sys
import tokenize

WIDTH = 100  # columns of Markdown, also of tables and code in it; clang-format and tools/format bound those of code
MAX_WORDS = 30  # of a sentence
MAX_LINES = 8  # of a paragraph of a comment
MAX_PAGE_LINES = 6  # of a paragraph of a page

C_LIKE = {".cc", ".h", ".c", ".pml"}
HASH_LIKE = {".cmake", ".sh"}
PYTHON = {".py", ".pyi"}
MANUAL = {f".{section}" for section in range(1, 9)}

CODE_SPAN = re.compile(r"``.+?``|`[^`]*`")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
QUOTE = re.compile(r'"[^"]{1,300}"')
URL = re.compile(r"https?://\S+")
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')*_]*\s+(?=[\"'(*_]*[A-Z0-9`])")
ABBREVIATION = re.compile(r"\b(e\.g|i\.e|vs|cf|et al)\.$", re.IGNORECASE)
LIST_ITEM = re.compile(r"\s*([-*+]|\d+[.)]|[A-Z]\d+[.:)]?)\s+")
SUBJECT = re.compile(r"(?:^|[;:]\s+)(?:and |but |so |or )?(who|whoever|what|whatever)\b", re.IGNORECASE)
# In a manual page, a sentence may go on in the next line, so a small "what" may be an object. "Who" is looked for behind
# words that ask for a noun, too, as in "serves who has a token".
MANUAL_SUBJECT = re.compile(r"^(Who|Whoever|What|Whatever)\b(?!.*\?$)|(?:^|[:;,] |\b(?:of|by|to|for|and|serves|rejects) )(who|whoever)\b")
PERSON = re.compile(r"\b(he|him|his|himself|she|her|hers)\b", re.IGNORECASE)
# Patterns of the words that docs/style/naming.md replaces, by the term to use. Words that are ordinary ones, too, have none.
TERMS = {
    "in flight": r"under way|on (?:its|their) way",
    "prefetch": r"fores(?:ee\w*|aw)",
    "fast path": r"shortest way",
    "retired memory": r"rests|rested|resting",
    "mark cold": r"chill\w*",
    "preferred line": r"br(?:ings?|ought|inging) (?:\w+ ){0,3}home",
    "promote": r"fetch(?:es|ed|ing)?",
    "completion record": r"remembered writes?",
    "client ID": r"client's name|name of (?:a|the|its) client(?! of)",
    "staging buffer": r"(?<!time )slices?",
    "pool": r"stocks?",
    "multi-put": r"put lists?|lists? of puts(?! and)",
    "space": r"room",
    "maintenance debt": r"ow(?:e|es|ed|ing) work|owed",
    "huge pages": r"large pages?",
    "reject": r"(?<!connection )refused|refus(?:es?|ing|als?)",
    "CPU": r"processors?",
    "unpin": r"lets? go|letting go",
}
# "the begin": a noun that is none.
BEGIN = re.compile(r"\b(?:the|their) begin\b(?!`)", re.IGNORECASE)
TERM = re.compile("|".join(rf"(\b(?:{pattern})\b)" for pattern in TERMS.values()), re.IGNORECASE)
DOC_HEAD = re.compile(r"(Of|As|What|Whether|The same)\b")
CLASS_DOC = re.compile(
    r"^ *///(?P<head>.*)\n(?: *///.*\n)*(?: *(?:template|requires)\b.*\n)* *(?:class|struct|union|enum)\b", re.MULTILINE
)
LABEL = re.compile(r"\s*(thread.safety\b|\w+:)", re.IGNORECASE)
DRAWING = re.compile(r"[\u2190-\u21ff\u2500-\u25ff]|--+[>+]|\+--|[-=]{4,}")
BOLD_HEAD = re.compile(r"\*\*[^*]+\*\*\s+\S")
DIRECTIVE = re.compile(r"\s*(NOLINT|clang-format|cmake-lint|pylint|noqa|type:|shellcheck|IWYU|fallthrough|CHECK( -D|$)|FAULT [A-Z_]+ +in \d)")


class Paragraph:
    """Consecutive lines of prose. `doc` marks the first of a `///` comment, `row` a heading or a cell of a table."""

    def __init__(self, number, doc=False, row=False):
        self.number, self.doc, self.row, self.lines = number, doc, row, []

    def text(self):
        return " ".join(line.strip() for line in self.lines)


def paragraphs(lines, doc=False, code_indent=2):
    """The paragraphs of numbered lines without comment markers. Blank lines, code and list items separate them."""
    current, is_item = None, False
    for number, line in lines:
        item = LIST_ITEM.match(line)
        code = line.startswith(" " * code_indent) and not item and not (current and is_item)
        if not line.strip() or code or DIRECTIVE.match(line) or DRAWING.search(line):
            if current:
                yield current
            current, is_item = None, False
            continue
        if item or current is None:
            if current:
                yield current
            current, is_item = Paragraph(number, doc), bool(item)
            doc = False
            line = line[item.end() :] if item else line
        current.lines.append(line)
    if current:
        yield current


def markdown(text):
    """The paragraphs of a page, each cell of its tables, and its headings."""
    waiting, fence = [], False
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("```"):
            fence = not fence
            line = ""
        elif fence:
            line = ""
        if line.startswith(("|", "#")):
            yield from paragraphs(waiting, code_indent=4)
            waiting = []
            for cell in line.strip("#| ").split(" | "):
                if not re.fullmatch(r"[\s|:-]*", cell):
                    row = Paragraph(number, row=True)
                    row.lines.append(cell)
                    yield row
        else:
            waiting.append((number, line.lstrip("> ") if line.startswith(">") else line))
    yield from paragraphs(waiting, code_indent=4)


C_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.DOTALL
)


def c_comments(text):
    """(line, whether it stands alone, marker, text) of each line of a comment."""
    starts = [0] + [match.end() for match in re.finditer("\n", text)]
    number = 0
    for match in C_TOKEN.finditer(text):
        token = match.group()
        while number < len(starts) and starts[number] <= match.start():
            number += 1
        alone = not text[starts[number - 1] : match.start()].strip()
        if token.startswith("//"):
            marker = re.match(r"//[/!]?<?", token).group()
            yield number, alone, marker, token[len(marker) :].removeprefix(" ")
        elif token.startswith("/*"):
            marker = "/**" if token.startswith("/**") else "/*"
            for offset, line in enumerate(token[len(marker) : -2].split("\n")):
                yield number + offset, alone or offset > 0, marker, re.sub(r"^\s*\* ?", "", line).removeprefix(" ")


def hash_comments(text):
    heredoc = None
    for number, line in enumerate(text.split("\n"), 1):
        if heredoc:
            heredoc = None if line.strip() == heredoc else heredoc
            continue
        opened = re.search(r"<<-?\s*['\"]?(\w+)['\"]?", line)
        if opened and not line.lstrip().startswith("#"):
            heredoc = opened.group(1)
        match = re.search(r"^(\s*)#(?!!)\s?(.*)$", line) or re.search(r"(\S.*?)  # (.*)$", line)
        if match:
            yield number, not match.group(1).strip(), "#", match.group(2)


def python_comments(text):
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
            yield token.start[0], not token.line[: token.start[1]].strip(), "#", token.string[1:].removeprefix(" ")


def docstrings(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            if ast.get_docstring(node, clean=False) is not None:
                first = node.body[0].value.lineno
                for offset, line in enumerate(ast.get_docstring(node).split("\n")):
                    yield first + offset, line
                yield first + offset + 1, ""


def comment_paragraphs(comments):
    """Groups lines of comments: those that stand alone below each other, with one marker, are one text."""
    group, marker_of_group, last = [], None, None
    for number, alone, marker, text in comments:
        if group and not (alone and marker == marker_of_group and number == last + 1):
            yield from paragraphs(group, marker_of_group in ("///", "/**"))
            group = []
        group.append((number, text))
        marker_of_group, last = marker, number
        if not alone:
            yield from paragraphs(group)
            group = []
    yield from paragraphs(group, marker_of_group in ("///", "/**"))


def texts(path):
    """The paragraphs of a file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from markdown(text)
    elif path.suffix in C_LIKE:
        yield from comment_paragraphs(c_comments(text))
    elif path.suffix in PYTHON or text.startswith("#!/usr/bin/env python"):
        yield from comment_paragraphs(python_comments(text))
        yield from paragraphs(docstrings(text))
    elif path.suffix in HASH_LIKE or path.name == "CMakeLists.txt" or re.match(r"#!.*\b(ba)?sh\b", text):
        yield from comment_paragraphs(hash_comments(text))


def sentences(text):
    text = URL.sub("URL", LINK.sub(r"\1", CODE_SPAN.sub("CODE", text)))
    text = QUOTE.sub("QUOTE", text)
    start = 0
    for match in SENTENCE_END.finditer(text):
        if not ABBREVIATION.search(text[: match.start()]):
            yield text[start : match.end()].strip()
            start = match.end()
    if text[start:].strip():
        yield text[start:].strip()


def words(sentence):
    return sum(1 for word in sentence.split() if re.search(r"\w", word))


def faults_of_paragraph(paragraph, max_lines):
    if not paragraph.row and len(paragraph.lines) > max_lines:
        yield f"a paragraph of {len(paragraph.lines)} lines; {max_lines} at most"
    if paragraph.doc and DOC_HEAD.match(paragraph.lines[0].strip()):
        head = DOC_HEAD.match(paragraph.lines[0].strip()).group()
        yield f'a doc comment that begins with "{head}"; begin with a verb ("Returns ...") or a noun'
    for sentence in sentences(paragraph.text()):
        if words(sentence) > MAX_WORDS:
            yield f'a sentence of {words(sentence)} words, {MAX_WORDS} at most: "{sentence[:40]}..."'
        subject = SUBJECT.search(sentence.lstrip("\"'(*_"))
        if subject and not sentence.rstrip("\"')*_").endswith("?"):
            yield f'"{subject.group(1)}" as a subject: name the actor or the thing'
        yield from faults_of_terms(sentence)
        person = PERSON.search(sentence)
        if person:
            yield f'"{person.group(1)}": a thread, client or caller is "it"'


def faults_of_terms(text):
    if BEGIN.search(text):
        yield f'"{BEGIN.search(text).group()}": "begin" is a verb; write "start" or "beginning"'
    for term in TERM.finditer(text):
        yield f'"{term.group()}": write "{list(TERMS)[term.lastindex - 1]}", or another word (docs/style/naming.md)'


def faults_of_manual_line(line):
    yield from faults_of_terms(line)
    for sentence in sentences(line):
        if subject := MANUAL_SUBJECT.search(sentence):
            yield f'"{subject.group(1) or subject.group(2)}" as a subject: name the actor or the thing'


def faults_of_classes(text):
    """(line, fault) of each class whose doc comment begins with a label, and not with what the class is or does."""
    for match in CLASS_DOC.finditer(text):
        if label := LABEL.match(match["head"]):
            yield text.count("\n", 0, match.start()) + 1, (
                f'the doc comment of a class that begins with "{label.group(1)}"; begin with what the class is or does'
            )


def faults_of(path):
    if path.suffix in C_LIKE:
        yield from faults_of_classes(path.read_text(encoding="utf-8"))
    if path.suffix == ".md":
        before = ""
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            if not before and BOLD_HEAD.match(line):
                yield number, "a topic in bold: make it a heading"
            before = line
            if len(line) > WIDTH:
                yield number, f"{len(line)} columns; {WIDTH} at most"
    if path.suffix in MANUAL:
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            if not line.startswith("."):  # the requests of roff; those with a text have names
                yield from ((number, fault) for fault in faults_of_manual_line(line))
        return
    for paragraph in texts(path):
        for fault in faults_of_paragraph(paragraph, MAX_PAGE_LINES if path.suffix == ".md" else MAX_LINES):
            yield paragraph.number, fault


def files(root):
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith(("build", ".")) and name != "__pycache__")
        if pathlib.Path(folder).relative_to(root).as_posix() == "tests/fuzz":
            folders[:] = [name for name in folders if name != "corpus"]
        for name in sorted(names):
            path = pathlib.Path(folder, name)
            if path.is_file() and is_text(path):
                yield path


def is_text(path):
    if path.suffix in C_LIKE | HASH_LIKE | PYTHON | MANUAL | {".md"} or path.name == "CMakeLists.txt":
        return True
    if path.suffix:
        return False
    with path.open("rb") as file:
        return re.match(rb"#!.*\b(python3?|(ba)?sh)\b", file.readline()) is not None


def covers(entry, name):
    return name == entry or name.startswith(entry if entry.endswith("/") else entry + "/")


def check(root, only=()):
    """The faults of all files, or of those inside `only`."""
    for path in files(root):
        name = path.relative_to(root).as_posix()
        if not only or any(covers(entry, name) for entry in only):
            for number, fault in faults_of(path):
                yield f"{name}:{number}: {fault}"


PRODUCT = ("store", "rdma", "client", "server", "tools", "bench")


def figures(root):
    """(name, figure) of pages and of comments in the product; headings and tables have no sentences."""
    pages, comments, wide = [], [], 0
    for path in files(root):
        found = [s for paragraph in texts(path) if not paragraph.row for s in sentences(paragraph.text())]
        if path.suffix == ".md":
            pages += found
            wide += sum(len(line) > WIDTH for line in path.read_text(encoding="utf-8").split("\n"))
        elif path.relative_to(root).parts[0] in PRODUCT:
            comments += found
    for name, found in {"pages": pages, "comments": comments}.items():
        lengths = sorted(map(words, found)) or [0]
        subjects = [subject for s in found if (subject := SUBJECT.search(s.lstrip("\"'(*_")))]
        who = sum(subject.group(1).lower() in ("who", "whoever") for subject in subjects)
        yield f"sentences of {name}", len(found)
        yield f"words of a sentence of {name}, median", statistics.median_low(lengths)
        yield f"words of a sentence of {name}, nine of ten at most", lengths[len(lengths) * 9 // 10]
        yield f"sentences of {name} with the subject who or whoever", who
    yield f"lines of pages with more than {WIDTH} columns", wide


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--figures"]
    root = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).parents[2]).resolve()
    if "--figures" in sys.argv:
        print(*(f"{name}: {figure}" for name, figure in figures(root)), sep="\n")
        return 0
    faults = list(check(root, arguments[1:]))
    print(*faults, sep="\n")
    print(f"{len(list(files(root)))} files, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
