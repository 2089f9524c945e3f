"""The site's pages as HTML. Every text is escaped here; only `render.sanitize` makes the HTML of manual pages."""

import urllib.parse
from html import escape
from typing import NamedTuple

from pages import Entry, Key, Page

SECTIONS = {
    "1": "commands", "2": "system calls", "3": "library functions", "4": "devices", "5": "files and formats", "6": "games",
    "7": "overviews", "8": "administration", "9": "kernel functions", "2type": "types of system calls",
    "3const": "constants", "3head": "headers", "3type": "types",
}  # fmt: skip

FRAME = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="/assets/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/assets/style.css">
<script src="/assets/script.js" defer></script>
</head>
<body>
<a class="skip" href="#main">To the page</a>
<header>
<a class="home" href="/">Manual pages</a>
<form action="/search" role="search">
<input id="query" type="search" name="q" value="{query}" maxlength="200" placeholder="Search names and descriptions"
 aria-label="Search names and descriptions" role="combobox" aria-expanded="false" aria-controls="completions"
 aria-autocomplete="list" autocomplete="off" autocapitalize="off" spellcheck="false">
<button>Search</button>
<ul id="completions" role="listbox" aria-label="Names that begin so" hidden></ul>
</form>
</header>
<main id="main">
{body}
</main>
<footer>{footer}</footer>
</body>
</html>
"""


class Times(NamedTuple):
    """Times in which one request read one value, in seconds; None: it is not there."""

    store: float
    disk: float | None  # from the file, after the kernel was asked to drop it from its cache
    cached: float | None  # from the file, once more

    def __str__(self) -> str:
        parts = [f'<span>this page from Remora: <b id="from_store">{duration(self.store)}</b></span>']
        if self.disk is not None and self.cached is not None:
            parts.append(f'<span>the same bytes from disk: <b id="from_disk">{duration(self.disk)}</b></span>')
            parts.append(f"<span>from the file cache: <b>{duration(self.cached)}</b></span>")
        else:
            parts.append("<span>there is no file to compare with</span>")
        return " ".join(parts) + " <span>measured at this request</span>"


def duration(seconds: float) -> str:
    """Returns a time with a unit that suits it."""
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def of_store(seconds: float, thing: str = "this list") -> str:
    """Returns the footer of a page that several reads of the store make."""
    return f'<span>{thing} from Remora: <b id="from_store">{duration(seconds)}</b></span> <span>measured at this request</span>'


def url_of(key: Key) -> str:
    return "/man/" + urllib.parse.quote(str(key))


def label_of(key: Key) -> str:
    return f"{key.name}({key.section})"


def link_to(key: Key) -> str:
    return f'<a href="{escape(url_of(key))}">{escape(label_of(key))}</a>'


def compare_url(left: Key, right: Key) -> str:
    return "/compare?" + urllib.parse.urlencode({"left": str(left), "right": str(right)}, safe="/")


def frame(title: str, body: str, footer: str, query: str = "") -> bytes:
    return FRAME.format(title=escape(title), body=body, footer=footer, query=escape(query)).encode()


def trail(*steps: tuple[str, str]) -> str:
    """Returns links to the lists above a page: (URL, text) of each."""
    links = "".join(f'<li><a href="{escape(url)}">{escape(text)}</a></li>' for url, text in steps)
    return f'<nav class="trail" aria-label="Path"><ol>{links}</ol></nav>'


def section_name(section: str) -> str:
    return f"{section}: {SECTIONS[section]}" if section in SECTIONS else section


def count_of(number: int, thing: str = "page") -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def entry_rows(entries: list[Entry], titles: dict[str, str] | None = None) -> str:
    """Returns a list of pages; with titles, also the system of each."""
    rows = []
    for key, about in entries:
        system = f'<span class="system">{escape(titles.get(key.system, key.system))}</span>' if titles is not None else ""
        rows.append(f"<li>{link_to(key)} {system}<span class='about'>{escape(about)}</span></li>")
    return f'<ul class="entries">{"".join(rows)}</ul>'


def section_links(system: str, sections: dict[str, int]) -> str:
    items = (
        f'<li><a href="/man/{escape(system)}/{escape(section)}">{escape(section_name(section))}</a> <small>{count:,}</small></li>'
        for section, count in sections.items()
    )
    return f'<ul class="sections">{"".join(items)}</ul>'


def home(systems: dict[str, tuple[str, dict[str, int]]], seconds: float) -> bytes:
    """Returns the directory: of each system its title and its sections."""
    cards = "".join(
        f'<section class="card"><h2><a href="/man/{escape(name)}">{escape(title)}</a></h2>'
        f'<p><b data-count="{escape(name)}">{sum(sections.values()):,}</b> pages</p>{section_links(name, sections)}</section>'
        for name, (title, sections) in systems.items()
    )
    waiting = "" if cards else "<p>There are no pages yet. They are shown as soon as they are loaded.</p>"
    body = f"""<h1>Manual pages of {count_of(len(systems), "system")}</h1>
<p>All of it comes from a Remora store: pages, directory, search.</p>
{waiting}<div class="cards">{cards}</div>
<section id="live" hidden><h2>Just loaded</h2><ul class="entries" id="loaded" aria-live="off"></ul></section>"""
    return frame("Manual pages", body, of_store(seconds))


def system_page(name: str, title: str, sections: dict[str, int], seconds: float) -> bytes:
    body = f"""{trail(("/", "Systems"))}<h1>{escape(title)}</h1>
<p>{count_of(sum(sections.values()))} in {count_of(len(sections), "section")}</p>{section_links(name, sections)}"""
    return frame(f"{title}: sections", body, of_store(seconds))


def section_page(system: str, title: str, section: str, entries: list[Entry], is_last: bool, after: str, seconds: float) -> bytes:
    url = f"/man/{system}/{section}"
    links = f'<a href="{escape(url)}">First pages</a> ' if after else ""
    if not is_last:
        more = urllib.parse.urlencode({"after": entries[-1].key.name})
        links += f'<a id="more" href="{escape(f"{url}?{more}")}">More pages</a>'
    begin = f", behind {after}" if after else ""
    body = f"""{trail(("/", "Systems"), (f"/man/{system}", title))}<h1>{escape(title)}, section {escape(section_name(section))}</h1>
<p>{count_of(len(entries))} here{escape(begin)}</p>{entry_rows(entries)}<p class="steps">{links}</p>"""
    return frame(f"{title}, section {section}", body, of_store(seconds))


def search_page(query: str, entries: list[Entry], is_whole: bool, titles: dict[str, str], seconds: float) -> bytes:
    note = "" if is_whole else "<p>There are more; add a word.</p>"
    if not query.strip():
        note = "<p>Search for a name, as rdma_post_read, or for words of descriptions.</p>"
    elif not entries:
        note = "<p>No page has all of these words in its name or description. Try fewer words, or the start of one.</p>"
    body = f"""<h1>Search: {escape(query)}</h1><p>{count_of(len(entries))}</p>{note}{entry_rows(entries, titles)}"""
    return frame(f"Search: {query}", body, of_store(seconds), query)


def facts(key: Key, page: Page, title: str, alias: Key | None) -> str:
    other = f"<div><dt>Another name of</dt><dd>{link_to(alias)}</dd></div>" if alias else ""
    return f"""<dl class="facts">
<div><dt>Command</dt><dd>{escape(key.name)}</dd></div>
<div><dt>Section</dt><dd>{escape(section_name(key.section))}</dd></div>
<div><dt>System</dt><dd>{escape(title)}</dd></div>
<div><dt>Source</dt><dd>{escape(page.package)} {escape(page.version)}</dd></div>
<div><dt>File</dt><dd><code>{escape(page.file)}</code></dd></div>{other}
</dl>"""


def elsewhere(key: Key, namesakes: list[Entry], titles: dict[str, str]) -> str:
    """Returns the links to pages of the same name, in other systems and sections."""
    rows = []
    for other, _ in namesakes:
        if other == key:
            continue
        title = titles.get(other.system, other.system)
        text = f"The same name on {title}" if other.system != key.system else "The same name in another section"
        url = escape(compare_url(key, other))
        rows.append(f'<li>{escape(text)}: {link_to(other)} <a class="compare" href="{url}">compare both</a></li>')
    return f'<aside aria-label="The same name elsewhere"><ul>{"".join(rows)}</ul></aside>' if rows else ""


def manual_page(key: Key, page: Page, html: str, alias: Key | None, namesakes: list[Entry], titles: dict[str, str], times: Times) -> bytes:
    title = titles.get(key.system, key.system)
    steps = trail(("/", "Systems"), (f"/man/{key.system}", title), (f"/man/{key.system}/{key.section}", section_name(key.section)))
    body = f"""{steps}<h1>{escape(label_of(key))}</h1>
<p class="about">{escape(page.about)}</p>
{facts(key, page, title, alias)}{elsewhere(key, namesakes, titles)}
<article class="manual">{html}</article>"""
    return frame(f"{label_of(key)} - {title}", body, str(times))


def headings_list(label: str, headings: list[str]) -> str:
    return f"<div><dt>{escape(label)}</dt><dd>{escape(', '.join(headings)) or '–'}</dd></div>"


class Side(NamedTuple):
    """One of two pages that are compared."""

    key: Key
    title: str  # of the system
    page: Page
    html: str
    headings: list[str]


def compare_page(left: Side, right: Side, seconds: float) -> bytes:
    both = [heading for heading in left.headings if heading in right.headings]
    names = [side.title if left.title != right.title else label_of(side.key) for side in (left, right)]
    only = [[heading for heading in side.headings if heading not in both] for side in (left, right)]
    panes = "".join(
        f'<section class="pane"><h2>{escape(name)}: {link_to(side.key)}</h2><p class="about">{escape(side.page.about)}</p>'
        f'<p class="source">{escape(side.page.package)} {escape(side.page.version)}</p><article class="manual">{side.html}</article></section>'
        for name, side in zip(names, (left, right))
    )
    body = f"""<h1>{escape(left.key.name)}: {escape(names[0])} and {escape(names[1])}</h1>
<dl class="facts">{headings_list("Headings of both", both)}{headings_list(f"Only {names[0]}", only[0])}{headings_list(f"Only {names[1]}", only[1])}</dl>
<div class="panes">{panes}</div>"""
    return frame(f"{left.key.name}: {names[0]} and {names[1]}", body, of_store(seconds, "both pages, and where their links go,"))


def error_page(status: int, title: str, text: str, entries: list[Entry], titles: dict[str, str]) -> bytes:
    rows = f"<h2>Pages of that name</h2>{entry_rows(entries, titles)}" if entries else ""
    return frame(title, f"<h1>{status}: {escape(title)}</h1><p>{escape(text)}</p>{rows}", "")
