"""Manual pages as HTML: mandoc renders, and a sanitizer keeps elements and attributes that are known to be harmless.

Numbered invariants:

1. The HTML has only elements of ELEMENTS, closed in their order, with attributes that this file writes. Text is escaped.
2. An element that is not in ELEMENTS is left out, and its text stays; of DROPPED also the text goes.
3. Links go to http, https or mailto, or into the page. Each id gets the prefix `s-`, so none is one of the site's.
4. A mention of another page is `<a href="ref:SECTION/NAME">`. No page can bring such a link along (3).
"""

import re
import subprocess
from html import escape
from html.parser import HTMLParser

ELEMENTS = set(
    "a b blockquote br cite code dd div dl dt em h1 h2 h3 i li ol p pre section span strong table tbody td th tr tt u ul var "
    "math mfrac mi mn mo mover mroot mrow msqrt msub msubsup msup mtable mtd mtext mtr munder munderover".split()
)
DROPPED = {"script", "style", "head", "title", "template", "iframe", "object"}
VOID = {"br"}
HEADINGS = {"h1": "h2", "h2": "h3", "h3": "h4"}  # the site's own heading is the first
CLASS = re.compile(r"[A-Za-z][A-Za-z0-9 -]{0,60}")
URL = re.compile(r"(?:https?://|mailto:)[!-~]{1,500}")
FRAGMENT = re.compile(r"#([!-~]{1,200})")

MENTION = re.compile(
    r"<a [^>]*>.*?</a>"  # links stay as they are
    r"|<(?P<tag>b|i|strong|em|code)(?P<attributes>[^>]*)>(?P<marked>[A-Za-z_][\w.+:-]*)</(?P=tag)>\s?\((?P<marked_in>[1-9][a-z]{0,6})\)"
    r"|<[^>]*>"
    r"|(?<![\w.&#;+:-])(?P<plain>[A-Za-z_][\w.+:-]*)\((?P<plain_in>[1-9][a-z]{0,6})\)",
    re.DOTALL | re.ASCII,
)
REFERENCE = re.compile(r'<a href="ref:([^"]*)">(.*?)</a>', re.DOTALL)
TITLE = re.compile(r'<table class="head">.*?</table>\s*', re.DOTALL)
HEADING = re.compile(r"<h2[^>]*>(.*?)</h2>", re.DOTALL)


class RenderError(Exception):
    """mandoc failed; the text says how."""


def mandoc(source: bytes, system: str) -> str:
    """Returns mandoc's HTML of a page's source; `system` is for the foot of pages that name none."""
    run = subprocess.run(
        ["mandoc", "-T", "html", "-O", "fragment", "-I", f"os={system}"],
        input=source, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    # Up to 4 are remarks about the page, with which mandoc renders what it can.
    if run.returncode > 4 or not run.stdout:
        raise RenderError(f"mandoc: status {run.returncode}: {run.stderr.decode(errors='replace').strip()[:200]}")
    return run.stdout.decode(errors="replace")


class _Sanitizer(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.output: list[str] = []
        self.open: list[str] = []  # elements, the innermost last
        self.links: list[bool] = []  # of each <a> that is open in the source: whether it is one in the output
        self.dropped = 0
        self.skip_newline = False

    def handle_starttag(self, tag, attributes):
        if tag in DROPPED:
            self.dropped += 1
        if self.dropped or tag not in ELEMENTS:
            return
        values = dict(attributes)
        if tag == "a":
            self._begin_link(values)
        elif tag in VOID:
            self._break()
        else:
            name = HEADINGS.get(tag, tag)
            self.output.append(f"<{name}{self._attributes(values)}>")
            self.open.append(tag)

    def _break(self):
        # mandoc writes newline, br, newline in preformatted text, where each of the three would be a new line.
        if "pre" in self.open:
            self.skip_newline = True
        else:
            self.output.append("<br>")

    def _begin_link(self, values):
        url = values.get("href") or ""
        fragment = FRAGMENT.fullmatch(url)
        is_link = "a" not in self.open and values.get("class") != "permalink" and bool(fragment or URL.fullmatch(url))
        self.links.append(is_link)
        if is_link:
            target = f"#s-{fragment[1]}" if fragment else url
            self.output.append(f'<a{self._attributes(values)} href="{escape(target)}">')
            self.open.append("a")

    def _attributes(self, values):
        text = ""
        kind, name = values.get("class") or "", values.get("id") or ""
        if CLASS.fullmatch(kind):
            text += f' class="{kind}"'
        if FRAGMENT.fullmatch(f"#{name}"):
            text += f' id="s-{escape(name)}"'
        return text

    def handle_endtag(self, tag):
        if tag in DROPPED:
            self.dropped = max(0, self.dropped - 1)
        if self.dropped or tag not in ELEMENTS or tag in VOID:
            return
        if tag == "a" and not (self.links and self.links.pop()):
            return
        if tag in self.open:
            while True:
                last = self.open.pop()
                self.output.append(f"</{HEADINGS.get(last, last)}>")
                if last == tag:
                    break

    def handle_data(self, text):
        if self.dropped:
            return
        if self.skip_newline and text.startswith("\n"):
            text = text[1:]
        self.skip_newline = False
        self.output.append(escape(text, quote=False))

    def finish(self) -> str:
        self.close()
        while self.open:
            last = self.open.pop()
            self.output.append(f"</{HEADINGS.get(last, last)}>")
        return "".join(self.output)


def sanitize(html: str) -> str:
    """Returns the HTML with invariants 1 to 3, without the line above the page, which the site has itself."""
    sanitizer = _Sanitizer()
    sanitizer.feed(html)
    return TITLE.sub("", sanitizer.finish(), count=1)


def mark_references(html: str) -> tuple[str, list[str]]:
    """Marks the mentions of other pages in sanitized HTML; returns it with the mentions, each once."""
    found: dict[str, None] = {}

    def link(match: re.Match[str]) -> str:
        name = match["marked"] or match["plain"]
        if name is None:
            return match[0]
        target = f"{match['marked_in'] or match['plain_in']}/{name}"
        found[target] = None
        return f'<a href="ref:{escape(target)}">{match[0]}</a>'

    return MENTION.sub(link, html), list(found)


def resolve_references(html: str, targets: dict[str, str]) -> str:
    """Replaces each mark by a link to the URL that `targets` has for it, or by its text."""

    def link(match: re.Match[str]) -> str:
        url = targets.get(match[1])
        return f'<a class="ref" href="{escape(url)}">{match[2]}</a>' if url else match[2]

    return REFERENCE.sub(link, html)


def rename_ids(html: str, prefix: str) -> str:
    """Gives the ids of sanitized HTML, and the links to them, another prefix than `s-`."""
    return re.sub(r"<[^>]*>", lambda tag: re.sub(r' (id="|href="#)s-', rf" \1{prefix}-", tag[0]), html)


def text_of(html: str) -> str:
    """Returns the text of a piece of HTML, in one line."""
    parser = HTMLParser(convert_charrefs=True)
    parts: list[str] = []
    parser.handle_data = parts.append
    parser.feed(html)
    parser.close()
    return " ".join("".join(parts).split())


def headings_of(html: str) -> list[str]:
    """Returns the headings of a page's sections."""
    return [text_of(match[1]) for match in HEADING.finditer(html)]


def about_of(html: str) -> str:
    """Returns the description in the section NAME: the text behind the dash; or an empty text."""
    section = re.search(r"<h2[^>]*>\s*NAME\s*</h2>(.*?)</section>", html, re.DOTALL | re.IGNORECASE)
    _, dash, about = re.sub(r"\s(?:-+|[\u2013\u2014])\s", "\0", text_of(section[1]), count=1).partition("\0") if section else ("", "", "")
    return about[:300] if dash else ""
