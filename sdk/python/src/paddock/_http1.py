"""HTTP/1.1 as bytes: what a request looks like on a connection, and what an answer on it means. Nothing here reads or
writes; `_async/wire.py` does."""

from __future__ import annotations

from typing import Dict, Iterator, List, Mapping, Optional, Tuple

from ._retrying import Broken, Unusable

#: Bytes of the status line and the headers of an answer.
LARGEST_HEAD = 128 << 10
#: Bytes of a line that says how long a chunk is.
LARGEST_CHUNK_LINE = 4096


class Headers(Mapping[str, str]):
    """Names are found in any case; a header that came twice is one, joined with a comma."""

    def __init__(self, fields: List[Tuple[str, str]]) -> None:
        self._fields: Dict[str, str] = {}
        for name, value in fields:
            before = self._fields.get(name)
            self._fields[name] = value if before is None else f"{before}, {value}"

    def __getitem__(self, name: str) -> str:
        return self._fields[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)


def head_of(method: str, target: str, headers: Mapping[str, str]) -> bytes:
    """The request line and the headers. A line break in a value would begin another header, and is refused."""
    lines = [f"{method} {target} HTTP/1.1", *[f"{name}: {value}" for name, value in headers.items()]]
    for line in lines:
        if not (line.isascii() and line.isprintable()):
            # Without the value, which may be a token.
            raise Unusable(f"a character that HTTP does not allow in {line.partition(':')[0]!r}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


class Parser:
    """One answer. `head` takes bytes until the head is there, then `body` takes those that follow it."""

    def __init__(self, method: str) -> None:
        self._bodiless = method == "HEAD"
        self._buffer = b""
        #: Bytes of the body, or of the chunk, that are to come; None: all until the connection ends.
        self._left: Optional[int] = 0
        self._chunked = False
        #: Whether the line end after a chunk, or the lines after the last chunk, are to come.
        self._after_chunk = False
        self._trailers = False
        self.status = 0
        self.headers = Headers([])
        self.done = False
        #: The connection can take another request when this answer is done.
        self.keeps_open = False

    def head(self, data: bytes) -> bool:
        """Whether the head is complete. What came behind it waits for `body(b"")`."""
        self._buffer += data
        while True:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self._buffer) > LARGEST_HEAD:
                    raise Broken(f"the head of the answer is longer than {LARGEST_HEAD} bytes")
                return False
            block, self._buffer = self._buffer[:end], self._buffer[end + 4 :]
            self._read_head(block.decode("latin-1"))
            if self.status >= 200:
                self._choose_framing()
                return True
            if self.status == 101:
                raise Broken("the server wants to speak another protocol")

    def body(self, data: bytes) -> bytes:
        """What the bytes add to the body; `done` says whether that is all of it."""
        if self._chunked:
            return self._chunks(data)
        if self._buffer:
            data, self._buffer = self._buffer + data, b""
        if self._left is None:
            return data
        piece, self._buffer = data[: self._left], data[self._left :]
        self._left -= len(piece)
        self.done = not self._left
        return piece

    def end(self) -> None:
        """The connection has ended."""
        if self._left is not None or self._chunked or not self.status:
            raise Broken("the server ended the connection before the end of its answer")
        self.done = True

    @property
    def is_reusable(self) -> bool:
        """Whether the connection can take another request. Bytes that nobody asked for are no good sign."""
        return self.done and self.keeps_open and not self._buffer

    def _read_head(self, text: str) -> None:
        first, *lines = text.split("\r\n")
        version, _, rest = first.partition(" ")
        code = rest[:3]
        if version not in ("HTTP/1.1", "HTTP/1.0") or len(code) != 3 or not (code.isascii() and code.isdigit()):
            raise Broken(f"this is no answer of an HTTP server: {first[:100]!r}")
        fields = []
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon or not name or name != name.strip():
                raise Broken(f"a header of the answer makes no sense: {line[:100]!r}")
            fields.append((name.lower(), value.strip(" \t")))
        self.status = int(code)
        self.headers = Headers(fields)
        connection = self.headers.get("connection", "").lower()
        self.keeps_open = version == "HTTP/1.1" and "close" not in connection

    def _choose_framing(self) -> None:
        encoding = self.headers.get("transfer-encoding")
        length = self.headers.get("content-length")
        if self._bodiless or self.status in (204, 304):
            self.done = True
        elif encoding is not None:
            if encoding.lower() != "chunked":
                raise Broken(f"the answer has a transfer encoding that was not asked for: {encoding!r}")
            self._chunked = True
        elif length is not None:
            # The same length twice is one length, as proxies write it.
            lengths = {part.strip() for part in length.split(",")}
            text = lengths.pop()
            if lengths or not (text.isascii() and text.isdigit()):
                raise Broken(f"the answer has a length that makes no sense: {length!r}")
            self._left = int(text)
            self.done = not self._left
        else:
            self._left, self.keeps_open = None, False

    def _chunks(self, data: bytes) -> bytes:
        self._buffer += data
        pieces: List[bytes] = []
        while self._buffer and not self.done:
            if self._left:
                piece, self._buffer = self._buffer[: self._left], self._buffer[self._left :]
                self._left -= len(piece)
                self._after_chunk = not self._left
                pieces.append(piece)
                continue
            line = self._line()
            if line is None:
                break
            self._take_line(line)
        return b"".join(pieces) if len(pieces) != 1 else pieces[0]

    def _line(self) -> Optional[bytes]:
        end = self._buffer.find(b"\r\n")
        if end < 0:
            if len(self._buffer) > LARGEST_CHUNK_LINE:
                raise Broken(f"a line between chunks is longer than {LARGEST_CHUNK_LINE} bytes")
            return None
        line, self._buffer = self._buffer[:end], self._buffer[end + 2 :]
        return line

    def _take_line(self, line: bytes) -> None:
        if self._after_chunk:
            if line:
                raise Broken("a chunk of the answer is longer than it said")
            self._after_chunk = False
        elif self._trailers:
            self.done = not line
        else:
            size = line.partition(b";")[0].strip()
            # int() would also take signs, underscores and 0x.
            if not size or size.strip(b"0123456789abcdefABCDEF"):
                raise Broken(f"the length of a chunk makes no sense: {line[:100]!r}")
            self._left = int(size, 16)
            self._trailers = not self._left


def chunk(piece: bytes) -> bytes:
    """A piece of a body whose length is not known before its end. An empty one would end it."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)


LAST_CHUNK = b"0\r\n\r\n"
