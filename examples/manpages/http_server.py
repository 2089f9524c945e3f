"""A small, strict HTTP/1.1 server for asyncio: GET and HEAD, no bodies, and a bound for everything that a client sends.

Numbered invariants:

1. A handler gets a request only if its head keeps RFC 9112, and its Host is this server's (see admits). Its path is
   UTF-8 without `.`, `..`, empty segments and control characters.
2. Every other request gets a 4xx or 505 that says what is wrong, and the connection ends.
3. A client holds a connection for a bounded time without a whole request, and a server has MOST_CONNECTIONS at most.
4. Every response has HEADERS, so a browser runs this server's scripts alone.
"""

import asyncio
import contextlib
import ipaddress
import re
import sys
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus

MOST_HEAD = 16384  # bytes of a request
MOST_TARGET = 2048  # bytes of its path and query
MOST_FIELDS = 64
MOST_CONNECTIONS = 256
MOST_REQUESTS = 1000  # of a connection
HEAD_SECONDS = 10  # from the first byte of a request to the last one
IDLE_SECONDS = 30  # between two requests
WRITE_SECONDS = 30  # without a byte that the client takes
LINGER_SECONDS = 1

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

REQUEST_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) ([!-~]+) HTTP/(\d)\.(\d)")
FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t\x20-\x7e\x80-\xff]*?)[ \t]*")
HOST = re.compile(r"(\[[0-9a-f:.]+\]|[0-9a-z_.-]+)(?::[0-9]{1,5})?")
PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class Rejection(Exception):
    """A request that gets an error: the text says what is wrong, and what to do."""

    def __init__(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(text)
        self.status, self.text, self.headers = status, text, headers or {}


@dataclass
class Request:
    method: str
    path: str  # decoded
    query: dict[str, str]
    keep_alive: bool = True


@dataclass
class Response:
    body: bytes | AsyncIterator[bytes]  # an iterator: sent as it comes, until it or the client ends
    content_type: str = "text/html; charset=utf-8"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


Handler = Callable[[Request], Awaitable[Response]]


def admits(host: str, names: frozenset[str]) -> bool:
    """Returns whether Host is localhost, one of the names, or an IP address, which no other site can resolve to."""
    match = HOST.fullmatch(host.lower())
    if not match:
        return False
    name = match[1].strip("[]").removesuffix(".")
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(name)
        return True
    return name == "localhost" or name in names


def parse_target(target: str) -> tuple[str, dict[str, str]]:
    """Returns the path and the query of a request's target, decoded."""
    if len(target) > MOST_TARGET:
        raise Rejection(414, f"the address has {len(target)} bytes; send at most {MOST_TARGET}")
    path, _, query = target.partition("?")
    if not path.startswith("/"):
        raise Rejection(400, "the target of the request is not a path; begin it with /")
    if "#" in target or PERCENT.search(target):
        raise Rejection(400, "the address has a # or a % that no two hexadecimal digits follow; encode it")
    try:
        path = urllib.parse.unquote(path, errors="strict")
        pairs = urllib.parse.parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=8)
    except UnicodeDecodeError:
        raise Rejection(400, "the address is not UTF-8; encode it as UTF-8") from None
    except ValueError:
        raise Rejection(400, "the query has more than 8 fields") from None
    if any(CONTROL.search(text) for text in [path, *(text for pair in pairs for text in pair)]):
        raise Rejection(400, "the address has control characters; leave them out")
    if any(segment in (".", "..") for segment in path.split("/")) or "//" in path:
        raise Rejection(400, "the path has an empty segment, or one that is . or ..; write the path without them")
    if len(dict(pairs)) != len(pairs):
        raise Rejection(400, "the query has a field twice; send each once")
    return path, dict(pairs)


def parse_fields(lines: list[bytes]) -> dict[str, str]:
    """Returns the header fields of a request, by names in lower case."""
    if len(lines) > MOST_FIELDS:
        raise Rejection(431, f"the request has {len(lines)} header fields; send at most {MOST_FIELDS}")
    fields: dict[str, str] = {}
    for line in lines:
        match = FIELD.fullmatch(line)
        if not match:
            raise Rejection(400, "a header line is not NAME: VALUE, or has control characters")
        name, value = match[1].decode().lower(), match[2].decode("latin-1")
        if name in fields and name in ("host", "content-length", "transfer-encoding"):
            raise Rejection(400, f"the header {name} stands twice; send it once")
        fields[name] = value
    return fields


def parse_head(head: bytes, names: frozenset[str]) -> Request:
    """Returns the request of a head without its last empty line; or raises `Rejection` (invariants 1 and 2)."""
    line, *rest = head.split(b"\r\n")
    match = REQUEST_LINE.fullmatch(line)
    if not match:
        raise Rejection(400, "the first line is not METHOD PATH HTTP/1.1")
    method, target, major, minor = (part.decode() for part in match.groups())
    if major != "1" or minor not in "01":
        raise Rejection(505, f"HTTP/{major}.{minor} is not spoken here; use HTTP/1.1")
    fields = parse_fields(rest)
    if fields.get("transfer-encoding") is not None:
        raise Rejection(413, "requests have no bodies here; leave out Transfer-Encoding")
    if (length := fields.get("content-length")) is not None and not re.fullmatch(r"0+", length):
        raise Rejection(413 if length.isascii() and length.isdigit() else 400, "requests have no bodies here; leave out Content-Length")
    if "host" not in fields and minor == "1":
        raise Rejection(400, "the request has no header Host; send it")
    if "host" in fields and not admits(fields["host"], names):
        raise Rejection(421, f"this server is not {fields['host'][:100]}; ask for it by its address, or start it with --host=NAME")
    if method not in ("GET", "HEAD"):
        raise Rejection(405, f"{method} is not served here; use GET or HEAD", {"Allow": "GET, HEAD"})
    path, query = parse_target(target)
    wishes = [wish.strip().lower() for wish in fields.get("connection", "").split(",")]
    return Request(method, path, query, minor == "1" and "close" not in wishes)


class Connection:
    """One client: its requests, one after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handler: Handler, names: frozenset[str]) -> None:
        self.reader, self.writer, self.handler, self.names = reader, writer, handler, names

    async def serve(self) -> None:
        for _ in range(MOST_REQUESTS):
            try:
                head = await self._read_head()
                if head is None:
                    return
                request = parse_head(head, self.names)
            except Rejection as rejection:
                await self.reject(rejection)
                return
            response = await self._ask_handler(request)
            if not await self._send(request, response):
                return

    async def _read_head(self) -> bytes | None:
        """Returns the next request's head, or None: the client is gone, or sends nothing."""
        try:
            first = await asyncio.wait_for(self.reader.read(1), IDLE_SECONDS)
        except asyncio.TimeoutError:
            return None
        if not first:
            return None
        try:
            rest = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), HEAD_SECONDS)
        except asyncio.TimeoutError:
            raise Rejection(408, f"the request did not come within {HEAD_SECONDS} s; send all of its head") from None
        except asyncio.IncompleteReadError:
            raise Rejection(400, "the request ends before its head does; end that with an empty line") from None
        except asyncio.LimitOverrunError:
            begin = await self.reader.read(MOST_HEAD)
            if b"\n" not in begin:
                raise Rejection(414, f"the first line has more than {MOST_HEAD} bytes; send a shorter address") from None
            raise Rejection(431, f"the head has more than {MOST_HEAD} bytes; send less") from None
        return first + rest[:-4]

    async def _ask_handler(self, request: Request) -> Response:
        try:
            return await self.handler(request)
        except Rejection as rejection:
            return plain(rejection)
        except Exception as error:  # a fault of the handler is not to end the server
            print(f"http: {request.path!r}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            return plain(Rejection(500, "an error of this server; its log has more"))

    async def reject(self, rejection: Rejection) -> None:
        """Answers, and reads on for a moment: else a client that still sends may lose the answer."""
        await self._send(Request("GET", "/", {}, False), plain(rejection))
        with contextlib.suppress(asyncio.TimeoutError, OSError):
            if self.writer.can_write_eof():
                self.writer.write_eof()
            await asyncio.wait_for(self._discard(), LINGER_SECONDS)

    async def _discard(self) -> None:
        for _ in range(64):
            if not await self.reader.read(MOST_HEAD):
                return

    async def _send(self, request: Request, response: Response) -> bool:
        """Returns whether the connection goes on."""
        is_whole = isinstance(response.body, bytes)
        keep = request.keep_alive and is_whole
        headers = {"Content-Type": response.content_type, "Cache-Control": "no-store", **HEADERS, **response.headers}
        if is_whole:
            headers["Content-Length"] = str(len(response.body))
        headers["Connection"] = "keep-alive" if keep else "close"
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.writer.write(f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}\r\n{lines}\r\n".encode("latin-1"))
        if is_whole:
            if request.method != "HEAD":
                self.writer.write(response.body)
            await self._drain()
        elif request.method != "HEAD":
            await self._send_as_it_comes(response.body)
        return keep

    async def _send_as_it_comes(self, parts: AsyncIterator[bytes]) -> None:
        async def send() -> None:
            async for part in parts:
                self.writer.write(part)
                await self._drain()

        # A client that has gone shows by the end of what it sends; more requests on this connection get no answer.
        tasks = [asyncio.ensure_future(send()), asyncio.ensure_future(self._discard())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await parts.aclose()

    async def _drain(self) -> None:
        await asyncio.wait_for(self.writer.drain(), WRITE_SECONDS)


def plain(rejection: Rejection) -> Response:
    """Returns the answer to a rejected request, as text."""
    text = f"{rejection.status} {HTTPStatus(rejection.status).phrase}: {rejection.text}\n"
    return Response(text.encode(), "text/plain; charset=utf-8", rejection.status, rejection.headers)


async def listen(handler: Handler, host: str, port: int, names: frozenset[str] = frozenset()) -> asyncio.Server:
    """Serves until the returned server is closed. `names`: of this server, beside localhost and IP addresses."""
    connections: set[asyncio.Task] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer, handler, names)
        task = asyncio.current_task()
        try:
            if len(connections) >= MOST_CONNECTIONS:
                await connection.reject(Rejection(503, f"{MOST_CONNECTIONS} clients are connected already; try again later"))
                return
            connections.add(task)
            await connection.serve()
        except (OSError, asyncio.TimeoutError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            connections.discard(task)
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    return await asyncio.start_server(serve, host, port, limit=MOST_HEAD)
