"""Pages of several of kvbench's reports, behind tables."""

import html
import subprocess

HEAD = """<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" lang="en">
<head>
<meta charset="utf-8"/>
<title>Remora</title>
</head>
"""


def report(binaries, files, scratch, flags=()):
    """(head, body) of what `kvbench report` makes of the files; `scratch` is where it may write."""
    subprocess.run([f"{binaries}/kvbench", "report", *map(str, files), f"--html={scratch}", *flags], check=True)
    head, body = scratch.read_text().split("<body>", 1)
    scratch.unlink()
    return head, body.rsplit("</body>", 1)[0].replace("<h1>kvbench</h1>", "")


def html_of(markdown):
    """Of lines, headings and tables."""
    parts, rows = [], []
    for line in [*markdown.splitlines(), ""]:
        if line.startswith("|"):
            cells = [html.escape(cell.strip()) for cell in line.strip("|").split("|")]
            if not line.startswith("|---"):
                rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
            continue
        if rows:
            parts.append("<div class=\"wide\"><table>\n" + "\n".join(rows) + "\n</table></div>")
            rows = []
        if line:
            tag = "h2" if line.startswith("#") else "p"
            parts.append(f"<{tag}>{html.escape(line.lstrip('# '))}</{tag}>")
    return "\n".join(parts)


def join(title, markdown, sections):
    """One page, well-formed XML: the tables, then sections, each a title and what report() gave."""
    head = sections[0][1][0] if sections else HEAD
    bodies = [f"<h1>{html.escape(name)}</h1>\n{body}" for name, (_, body) in sections]
    return f"{head}<body>\n<h1>{html.escape(title)}</h1>\n{html_of(markdown)}\n" + "\n".join(bodies) + \
        "\n</body>\n</html>\n"
