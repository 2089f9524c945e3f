"""examples/manpages: the loader, the site and `run`, with real programs and small pages. manpages_browser_test.py has the
pages of Debian in a browser."""

import asyncio
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import unittest
import urllib.error
import urllib.request

import harness

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples/manpages"
PYTHON = os.environ.get("REMORA_PYTHON") or str(harness.BIN.parent / "python")
sys.path[:0] = [str(EXAMPLE), PYTHON]
import http_server  # noqa: E402
import render  # noqa: E402
from pages import Key, Page, index_entries  # noqa: E402

ENVIRONMENT = {**os.environ, "PYTHONPATH": PYTHON, "PYTHONDONTWRITEBYTECODE": "1"}

PAGES = {
    "rdma/librdmacm-dev/man3/rdma_post_read.3": """.TH RDMA_POST_READ 3 2010-07-19 librdmacm
.SH NAME
rdma_post_read \\- post an RDMA read work request
.SH SEE ALSO
rdma_cm(7), rdma_reg_read(3), \\fBtcp\\fR(7), nothing_there(3)
""",
    "rdma/librdmacm-dev/man3/rdma_reg_read.3": """.TH RDMA_REG_READ 3 2010-07-19 librdmacm
.SH NAME
rdma_reg_read \\- register a buffer for RDMA reads
""",
    "rdma/librdmacm-dev/man3/rdma_same.3": ".so man3/rdma_reg_read.3\n",
    "linux/manpages/man7/tcp.7": """.TH TCP 7 2020-01-01 Linux
.SH NAME
tcp \\- TCP protocol <script>alert(1)</script>
.SH VERSIONS
.UR javascript:alert(1)
here
.UE
""",
    "freebsd/freebsd-manpages/man4/tcp.4freebsd": """.Dd January 1, 2020
.Dt TCP 4
.Os
.Sh NAME
.Nm tcp
.Nd Internet Transmission Control Protocol
.Sh HISTORY
See
.Xr tcp 7 .
""",
}


def write_pages(folder, pages):
    for name, text in pages.items():
        path = folder / "pages" / re.sub(r"^([^/]+/[^/]+)/", r"\1/man/", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        (folder / "pages" / "/".join(name.split("/")[:2]) / "version").write_text("1.2-3\n")


class SiteTest(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.logged_server("--quiet")
        self.pages = self.folder / "manuals"
        write_pages(self.pages, PAGES)
        (self.pages / "pages/linux/manpages/man/man7/tcp_other.7").symlink_to("tcp.7")

    def load(self, status=0):
        run = subprocess.run(
            [sys.executable, EXAMPLE / "load.py", self.address, self.pages], env=ENVIRONMENT,
            capture_output=True, text=True, timeout=harness.PATIENCE, check=False,
        )  # fmt: skip
        self.assertEqual(run.returncode, status, run.stderr)
        return run.stdout + run.stderr

    def serve(self):
        command = [sys.executable, EXAMPLE / "serve.py", "--listen=127.0.0.1:0", f"--rendered={self.pages}/rendered", self.address]
        site = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)
        self.addCleanup(site.wait)
        self.addCleanup(site.kill)
        self.addCleanup(site.stdout.close)
        self.site = site
        self.url = site.stdout.readline().strip().rstrip("/")
        self.assertRegex(self.url, r"\Ahttp://127\.0\.0\.1:\d+\Z")

    def get(self, path, status=200):
        try:
            with urllib.request.urlopen(self.url + path, timeout=harness.PATIENCE) as answer:
                found, body = answer, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                found, body = error, error.read().decode()
        self.assertEqual(found.status, status, body)
        self.assertIn("script-src 'self';", found.headers["Content-Security-Policy"])
        self.assertNotIn("unsafe", found.headers["Content-Security-Policy"])
        return body

    def test_the_pages_and_their_links(self):
        self.assertIn("Linux: 1 pages, 1 other names", self.load())
        self.serve()
        home = self.get("/")
        for part in (">rdma-core</a>", ">FreeBSD</a>", '<b data-count="linux">2</b>', 'href="/man/rdma/3"'):
            self.assertIn(part, home)
        self.assertIn('href="/man/rdma/3/rdma_post_read"', self.get("/man/rdma/3"))
        page = self.get("/man/rdma/3/rdma_post_read")
        for part in ("<h1>rdma_post_read(3)</h1>", "librdmacm-dev 1.2-3", "/usr/share/man/man3/rdma_post_read.3",
                     '<a class="ref" href="/man/rdma/3/rdma_reg_read">rdma_reg_read(3)</a>',
                     '<a class="ref" href="/man/linux/7/tcp"><b>tcp</b>(7)</a>', "nothing_there(3)"):  # fmt: skip
            self.assertIn(part, page)
        self.assertNotIn("/nothing_there", page)
        self.assertNotIn("ref:", page)
        self.assertRegex(page, r'from Remora: <b id="from_store">[\d.]+ (µs|ms|s)</b>')
        self.assertRegex(page, r'from disk: <b id="from_disk">[\d.]+ (µs|ms|s)</b>')
        for alias in ("rdma/3/rdma_same", "linux/7/tcp_other"):
            self.assertIn("Another name of", self.get(f"/man/{alias}"))
        self.assertIn("register a buffer", self.get("/man/rdma/3/rdma_same"))

    def test_other_systems(self):
        self.load()
        self.serve()
        self.assertIn('The same name on FreeBSD: <a href="/man/freebsd/4/tcp">tcp(4)</a>', self.get("/man/linux/7/tcp"))
        self.assertIn('href="/man/linux/7/tcp"', self.get("/man/freebsd/4/tcp"))
        both = self.get("/compare?left=linux/7/tcp&right=freebsd/4/tcp")
        for part in ("Internet Transmission Control Protocol", "<dt>Headings of both</dt><dd>NAME</dd>",
                     "<dt>Only Linux</dt><dd>VERSIONS</dd>", "<dt>Only FreeBSD</dt><dd>HISTORY</dd>"):  # fmt: skip
            self.assertIn(part, both)
        ids = re.findall(r'<[^>]* id="([^"]*)"', both)
        self.assertEqual(len(ids), len(set(ids)))
        self.assertIn("no page linux/7/udp", self.get("/compare?left=linux/7/udp&right=freebsd/4/tcp", 404))
        self.get("/compare?left=linux/7&right=freebsd/4/tcp", 400)

    def test_search_and_completion(self):
        self.load()
        self.serve()
        names = re.compile(r'<li><a href="/man/[^"]*">([^<]*)</a>')
        for query, found in (("rdma_post_read", ["rdma_post_read(3)"]), ("RDMA+read", ["rdma_post_read(3)", "rdma_reg_read(3)", "rdma_same(3)"]),
                             ("post+requ", ["rdma_post_read(3)"]), ("tcp(4)", ["tcp(4)"]), ("nothing+here", []), ("", [])):  # fmt: skip
            self.assertEqual(sorted(names.findall(self.get(f"/search?q={query}"))), found, query)
        self.assertEqual([entry["label"] for entry in json.loads(self.get("/complete?q=rdma_"))],
                         ["rdma_post_read(3)", "rdma_reg_read(3)", "rdma_same(3)"])  # fmt: skip
        self.assertEqual(json.loads(self.get("/complete?q=%2F..%2F")), [])

    def test_no_text_becomes_markup(self):
        self.load()
        self.serve()
        script = "%3Cscript%3Ealert(1)%3C/script%3E"
        bodies = [self.get(f"/search?q={script}"), self.get("/man/linux/7/tcp"), self.get("/man/linux/7"), self.get("/search?q=tcp"),
                  self.get("/compare?left=linux/7/tcp&right=freebsd/4/tcp"), self.get(f"/man/linux/7/{script}", 404)]  # fmt: skip
        for body in bodies:
            self.assertEqual(re.findall(r"<script[^>]*>", body), ['<script src="/assets/script.js" defer>'])
            self.assertNotIn("javascript:", body.replace('="text/javascript"', ""))
            self.assertNotRegex(body, r"(?i)<[^>]* (on\w+|style)=")
        self.assertIn("&lt;script&gt;alert(1)", bodies[1])

    def test_bad_addresses(self):
        self.load()
        self.serve()
        for path, status in (("/man/linux/7/..%2f..%2fetc", 400), ("/man/linux/7/%2e%2e/passwd", 400), ("/man/~word/tcp/linux", 404),
                             ("/man/linux/7/tcp/more", 404), ("/man/plan9", 404), ("/man/linux/9", 404), ("/man/linux/x%2Fy", 404),
                             ("/assets/../serve.py", 400), ("/assets/none", 404), ("/search?q=" + "x" * 201, 400), ("/search?r=x", 400),
                             ("/man/linux/7?after=%2F", 400), ("/man/linux/7/tcp?x=1", 400), ("/search?q=" + "x" * 3000, 414)):  # fmt: skip
            self.get(path, status)

    def test_a_load_changes_what_is_there(self):
        self.load()
        self.serve()
        path = self.pages / "pages/rdma/librdmacm-dev/man/man3/rdma_reg_read.3"
        path.write_text(path.read_text().replace("register a buffer", "announce memory"))
        (self.pages / "pages/rdma/librdmacm-dev/man/man3/rdma_post_read.3").unlink()
        self.load()
        self.get("/man/rdma/3/rdma_post_read", 404)
        self.assertIn("No page has all", self.get("/search?q=register"))
        self.assertIn("/man/rdma/3/rdma_reg_read", self.get("/search?q=announce"))
        keys = harness.kvctl(self.address, "scan").stdout.decode()
        self.assertNotIn("rdma_post_read", keys)

    def test_new_pages_are_shown_live(self):
        self.load()
        self.serve()
        with urllib.request.urlopen(self.url + "/live", timeout=harness.PATIENCE) as events:
            self.assertEqual(events.readline(), b": the newest pages follow\n")
            write_pages(self.pages, {"rdma/librdmacm-dev/man3/rdma_new.3": ".TH X 3\n.SH NAME\nrdma_new \\- is new\n"})
            self.load()
            labels, counts = set(), {}
            while "rdma_new(3)" not in labels or counts["rdma"] != 4:
                line = events.readline()
                if line.startswith(b"data: "):
                    data = json.loads(line[6:])
                    labels |= {entry["label"] for entry in data["newest"]}
                    counts = data["counts"]
        self.assertIn("is new", self.get("/man/rdma/3/rdma_new"))

    def test_a_lost_store_is_told(self):
        self.load()
        self.serve()
        self.site.send_signal(signal.SIGTERM)
        self.assertEqual(self.site.wait(harness.PATIENCE), 0)
        run = subprocess.run(
            [sys.executable, EXAMPLE / "serve.py", f"local://{self.folder}/none"], env=ENVIRONMENT,
            capture_output=True, text=True, timeout=harness.PATIENCE, check=False,
        )  # fmt: skip
        self.assertEqual((run.returncode, run.stdout), (69, ""), run.stderr)

    def test_a_folder_without_pages(self):
        self.pages = self.folder / "none"
        self.assertIn("has no pages", self.load(65))


class RunTest(harness.TestCase):
    def run_it(self, *arguments):
        environment = {**os.environ, "REMORA_BIN": str(harness.BIN), "REMORA_PYTHON": PYTHON, "TMPDIR": str(self.folder)}
        return subprocess.Popen(
            [EXAMPLE / "run", f"--folder={self.folder}/manuals", *arguments], env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def test_one_command_brings_it_up_and_a_signal_ends_it(self):
        with self.run_it("--listen=127.0.0.1:0", "remora=remora") as run:
            lines = []
            while not lines or "all pages are loaded" not in lines[-1]:
                lines.append(run.stdout.readline())
                self.assertTrue(lines[-1], run.stderr.read() if not lines[-1] else "")
            url = re.search(r"http://127\.0\.0\.1:\d+/", "".join(lines))[0]
            with urllib.request.urlopen(f"{url}man/remora/3/remora_get", timeout=harness.PATIENCE) as answer:
                self.assertIn("remora_get(3)</h1>", answer.read().decode())
            children = [int(pid) for pid in pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()]
            self.assertEqual(len(children), 2)
            run.send_signal(signal.SIGINT)
            self.assertEqual(run.wait(harness.PATIENCE), 130)
            for child in children:
                self.assertFalse(pathlib.Path(f"/proc/{child}").exists())

    def test_wrong_usage(self):
        for arguments in (["--nothing"], ["--listen=here"], ["x"]):
            with self.run_it(*arguments) as run:
                self.assertEqual(run.wait(harness.PATIENCE), 64)
                self.assertRegex(run.stderr.read(), "run: ")


class SanitizerTest(unittest.TestCase):
    def test_what_is_not_known_is_left_out(self):
        for html, clean in (
            ('<p onclick="x" style="y" class="Pp">a</p>', '<p class="Pp">a</p>'), ("<b>a<i>b</b>c", "<b>a<i>b</i></b>c"),
            ("a<script>b</script>c<style>d</style>", "ac"), ("<img src=x onerror=y>a<form><input></form>", "a"),
            ('<a href="javascript:x">a</a>', "a"), ('<a href="ref:3/x">a</a>', "a"), ('<a href="//x">a</a>', "a"),
            ('<a href="https://x/?a=&quot;>">a</a>', '<a href="https://x/?a=&quot;&gt;">a</a>'),
            ('<a href="https://x/?a&amp;b">a</a>', '<a href="https://x/?a&amp;b">a</a>'),
            ('<p id="main">&lt;b&gt;</p>', '<p id="s-main">&lt;b&gt;</p>'), ("<!-- a --><?php b ?><p>c", "<p>c</p>"),
            ('<a href="#x">a</a>', '<a href="#s-x">a</a>'), ('<p class="x&quot; onclick=y">a</p>', "<p>a</p>"),
        ):  # fmt: skip
            self.assertEqual(render.sanitize(html), clean)

    def test_any_soup_of_tags_becomes_whole_elements(self):
        chance = random.Random(7)
        pieces = ["<b>", "</b>", "<pre>", "</pre>", "<br>", "<a href='http://x'>", "<a class=permalink href='#y'>", "</a>", "<script>", "</script>",
                  "<svg onload=x>", "<p id='\"'>", "</p", "<", ">", "&", "&lt;", "\n", "x(3)", "<!--", "-->", "<h1 id=a>", "</h1>", "'", '"']  # fmt: skip
        tag = re.compile(r'<(/?)([a-z0-9]+)((?: (?:class|id|href)="[^"<>]*")*)>')
        for _ in range(3000):
            html, _ = render.mark_references(render.sanitize("".join(chance.choices(pieces, k=12))))
            is_open = []
            for end, name, _ in tag.findall(html):
                if end:
                    self.assertEqual(is_open.pop(), name, html)
                elif name != "br":
                    self.assertIn(name, {"b", "pre", "a", "p", "h2"})
                    is_open.append(name)
            self.assertEqual(is_open, [])
            self.assertNotRegex(tag.sub("", html), "[<>]")

    def test_mentions(self):
        marked, found = render.mark_references('<b>a_b</b>(3), c.d(1) <a href="http://x">e(2)</a> f(12) &amp;g(3) <p id="s-h(3)">')
        self.assertEqual(found, ["3/a_b", "1/c.d"])
        self.assertEqual(render.resolve_references(marked, {"3/a_b": "/u"}),
                         '<a class="ref" href="/u"><b>a_b</b>(3)</a>, c.d(1) <a href="http://x">e(2)</a> f(12) &amp;g(3) <p id="s-h(3)">')  # fmt: skip


class KeysTest(unittest.TestCase):
    def test_parts_of_keys(self):
        self.assertEqual(str(Key.parse("linux/3type/size_t")), "linux/3type/size_t")
        for text in ("", "linux/3", "linux/3/", "linux/3/..", "linux/3/.", "Linux/3/x", "~word/3/x", "linux/x/y", "linux/3/a/b", "linux/3/a b", "linux/3/" + "x" * 129):
            self.assertIsNone(Key.parse(text), text)

    def test_values(self):
        page = Page("the ü", "manpages", "6.03", "/usr/x", "linux/3/y", ["3/z"], "<p>\n</p>")
        self.assertEqual(Page.decode(page.encode()), page)

    def test_index(self):
        entries = index_entries(Key("rdma", "3", "rdma_CM"), "open the RDMA (cm) x")
        self.assertEqual([key.split("/rdma/3/")[0] for key in entries],
                         ["~list", "~name/rdma_cm", "~word/rdma_cm", "~word/rdma", "~word/cm", "~word/open", "~word/the"])  # fmt: skip


class HttpTest(unittest.IsolatedAsyncioTestCase):
    """http_server.py with a handler that shows what it gets."""

    async def asyncSetUp(self):
        asyncio.get_running_loop().set_debug(False)  # it writes a line for each step that a busy machine delays
        seconds, http_server.HEAD_SECONDS = http_server.HEAD_SECONDS, harness.PATIENCE
        self.addCleanup(setattr, http_server, "HEAD_SECONDS", seconds)

        async def handle(request):
            if request.path == "/fault":
                raise ValueError("secret")
            return http_server.Response(f"{request.path}|{request.query}".encode(), "text/plain")

        self.server = await http_server.listen(handle, "127.0.0.1", 0, frozenset({"manuals.example"}))
        self.addCleanup(self.server.close)
        self.port = self.server.sockets[0].getsockname()[1]

    async def ask(self, data, end=True):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data)
        if end:
            writer.write_eof()
        try:
            return await asyncio.wait_for(reader.read(), harness.PATIENCE)
        finally:
            writer.close()

    async def check(self, data, status, text=b"", end=True):
        answer = await self.ask(data, end)
        self.assertTrue(answer.startswith(b"HTTP/1.1 %d " % status), (data[:100], answer[:200]))
        self.assertIn(text, answer)
        if status >= 400:
            self.assertIn(b"Connection: close\r\n", answer)
            self.assertGreater(len(answer.partition(b"\r\n\r\n")[2]), 20)
        return answer

    async def test_good_requests(self):
        host = b"Host: localhost:80\r\n"
        await self.check(b"GET /a%C3%BC?q=x+y&z= HTTP/1.1\r\n" + host + b"\r\n", 200, "/aü|{'q': 'x y', 'z': ''}".encode())
        await self.check(b"GET / HTTP/1.0\r\n\r\n", 200)
        for name in (b"127.0.0.1:1", b"[::1]", b"[::1]:80", b"LOCALHOST", b"localhost.", b"Manuals.Example:81"):
            await self.check(b"GET / HTTP/1.1\r\nHost: " + name + b"\r\n\r\n", 200)
        answer = await self.check(b"HEAD /abc HTTP/1.1\r\n" + host + b"\r\n", 200, b"Content-Length: 7\r\n")
        self.assertTrue(answer.endswith(b"\r\n\r\n"))
        answer = await self.ask((b"GET /1 HTTP/1.1\r\n" + host + b"\r\n") * 3)
        self.assertEqual(answer.count(b"/1|{}"), 3)

    async def test_bad_requests_are_told(self):
        def request(line=b"GET / HTTP/1.1", fields=b"Host: localhost\r\n"):
            return line + b"\r\n" + fields + b"\r\n"

        for data, status in (
            (b"\r\n\r\n", 400), (b"junk\r\n\r\n", 400), (b"\x16\x03\x01\x02\x00\r\n\r\n", 400), (b"GET  / HTTP/1.1\r\n\r\n", 400),
            (request(b"GET /\x00 HTTP/1.1"), 400), (request(b"GET /\xff HTTP/1.1"), 400), (request(b"GET /%00 HTTP/1.1"), 400),
            (request(b"GET /%ff HTTP/1.1"), 400), (request(b"GET /%2 HTTP/1.1"), 400), (request(b"GET /#x HTTP/1.1"), 400),
            (request(b"GET http://localhost/ HTTP/1.1"), 400), (request(b"GET /a/../b HTTP/1.1"), 400), (request(b"GET /%2e%2e/b HTTP/1.1"), 400),
            (request(b"GET //b HTTP/1.1"), 400), (request(b"GET /?a=1&a=2 HTTP/1.1"), 400), (request(b"GET /?" + b"a&" * 9 + b" HTTP/1.1"), 400),
            (request(b"GET / HTTP/2.0"), 505), (request(b"POST / HTTP/1.1"), 405), (request(b"BREW / HTTP/1.1"), 405),
            (request(b"GET /" + b"x" * 3000 + b" HTTP/1.1"), 414), (request(b"GET /" + b"x" * 100_000 + b" HTTP/1.1"), 414),
            (request(fields=b""), 400), (request(fields=b"Host: localhost\r\nHost: localhost\r\n"), 400), (request(fields=b"Host: evil.example\r\n"), 421),
            (request(fields=b"Host: localhost@evil\r\n"), 421), (request(fields=b"Host : localhost\r\n"), 400), (request(fields=b"Host: localhost\n\r\n"), 400),
            (request(fields=b"Host: localhost\r\n more\r\n"), 400), (request(fields=b"Host: localhost\r\nX: \x01\r\n"), 400),
            (request(fields=b"Host: localhost\r\nContent-Length: 5\r\n"), 413), (request(fields=b"Host: localhost\r\nContent-Length: -1\r\n"), 400),
            (request(fields=b"Host: localhost\r\nTransfer-Encoding: chunked\r\n"), 413),
            (request(fields=b"Host: localhost\r\n" + b"X: y\r\n" * 100), 431), (request(fields=b"Host: localhost\r\nX: " + b"y" * 100_000 + b"\r\n"), 431),
        ):  # fmt: skip
            await self.check(data, status)
        await self.check(request(b"POST / HTTP/1.1"), 405, b"Allow: GET, HEAD\r\n")
        await self.check(request(), 200)

    async def test_half_requests(self):
        await self.check(b"GET / HT", 400, b"ends before its head")
        self.assertEqual(await self.ask(b""), b"")
        http_server.HEAD_SECONDS = 0.05
        await self.check(b"GET / HTTP/1.1\r\nHost: local", 408, b"did not come", end=False)

    async def test_too_many_clients(self):
        self.addCleanup(setattr, http_server, "MOST_CONNECTIONS", http_server.MOST_CONNECTIONS)
        http_server.MOST_CONNECTIONS = 2
        held = [await asyncio.open_connection("127.0.0.1", self.port) for _ in range(2)]
        for reader, writer in held:
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await reader.readuntil(b"|{}")
        await self.check(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 503, b"try again later")
        for _, writer in held:
            writer.close()

    async def test_a_fault_of_the_handler_is_not_shown(self):
        answer = await self.check(b"GET /fault HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 500)
        self.assertNotIn(b"secret", answer)


if __name__ == "__main__":
    unittest.main()
