"""Reads protobuf's text format."""

from __future__ import annotations

import re
import sys
from typing import NamedTuple

from muster._job_text.tree import Kind, Node, Position, TreeBuilder

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r\n\v\f]+|\#[^\n]*)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<float>(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fF]?|[0-9]+(?:[eE][+-]?[0-9]+)[fF]?|[0-9]+[fF](?![A-Za-z0-9_]))
    |(?P<integer>0[xX][0-9a-fA-F]+|[0-9]+)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<symbol>.)""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|(.))")
_CHARACTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", "?": "?",
               "'": "'", '"': '"'}  # fmt: skip


class _Token(NamedTuple):
    kind: str
    text: str
    position: Position


def parse_textproto(text: str, origin: str) -> Node:
    """Returns the tree of a text in protobuf's text format.

    Raises:
        InvalidArgument: says what is wrong, with line and column.
    """
    reader = _Reader(text, origin)
    reader.builder.begin(Kind.GROUP, Position(1, 1))
    reader.entries("")
    reader.builder.end()
    return reader.builder.root


class _Reader:
    """Goes over the tokens from left to right, by recursive descent."""

    def __init__(self, text: str, origin: str) -> None:
        self.builder = TreeBuilder(origin, names_repeat=True)
        self._tokens: list[_Token] = []
        self._at = 0
        line, line_start = 1, 0
        for match in _TOKEN.finditer(text):
            kind = match.lastgroup or ""
            token = _Token(kind, match[0], Position(line, match.start() - line_start + 1))
            if kind == "symbol" and token.text in "\"'":
                raise self.builder.error(token.position, "a text that begins here does not end in this line")
            if kind != "blank":
                self._tokens.append(token)
            if "\n" in match[0]:
                line += match[0].count("\n")
                line_start = match.start() + match[0].rindex("\n") + 1
        # The end, with its place.
        self._tokens.append(_Token("end", "", Position(line, len(text) - line_start + 1)))

    def entries(self, close: str) -> None:
        """Takes names with values up to `close`, which is taken; "": up to the end of the text."""
        while not (self._next.kind == "end" if not close else self._take(close)):
            if self._next.kind != "name":
                raise self._error(f"the name of a field, or '{close}'" if close else "the name of a field")
            self.builder.name(self._next.text, self._next.position)
            self._at += 1
            self._any(colon=self._take(":"))
            if not self._take(","):
                self._take(";")

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self, symbol: str) -> bool:
        if self._next.kind != "symbol" or self._next.text != symbol:
            return False
        self._at += 1
        return True

    def _any(self, colon: bool) -> None:
        position = self._next.position
        if self._take("{"):
            self.builder.begin(Kind.GROUP, position)
            self.entries("}")
            self.builder.end()
        elif self._take("<"):
            self.builder.begin(Kind.GROUP, position)
            self.entries(">")
            self.builder.end()
        elif self._take("["):
            self.builder.begin(Kind.LIST, position)
            self._items()
            self.builder.end()
        elif colon:
            self._value()
        else:
            raise self._error("':' and a value, or '{'")

    def _items(self) -> None:
        if self._take("]"):
            return
        while True:
            self._any(colon=True)
            if self._take("]"):
                return
            if not self._take(","):
                raise self._error("',' or ']'")

    def _value(self) -> None:
        position = self._next.position
        if self._next.kind == "string":
            data = b""
            while self._next.kind == "string":
                data += self._unescaped(self._next)
                self._at += 1
            try:
                self.builder.add(Node(Kind.VALUE, position, data.decode(), may_be_text=True))
            except UnicodeDecodeError:
                raise self.builder.error(position, "the text is not UTF-8") from None
            return
        value = "-" if self._take("-") else ""
        token = self._next
        if token.kind not in ("integer", "float", "name"):
            raise self._error("a value")
        self._at += 1
        value += _decimal(token)
        # A word after a number belongs to it, unless it names the next field.
        unit, after = self._tokens[self._at], self._tokens[min(self._at + 1, len(self._tokens) - 1)]
        if token.kind != "name" and unit.kind == "name" and after.text not in (":", "{", "<", "["):
            value += unit.text
            self._at += 1
        self.builder.add(Node(Kind.VALUE, position, value))

    def _unescaped(self, token: _Token) -> bytes:
        """Returns the bytes of a text in quotes; escapes are those of C."""

        def byte(match: re.Match[str]) -> str:
            octal, hexadecimal, code, character = match.groups()
            if octal or hexadecimal:
                return chr(int(octal, 8) & 0xFF if octal else int(hexadecimal, 16))
            if code and int(code, 16) <= sys.maxunicode:
                return chr(int(code, 16)).encode("utf-8", "surrogatepass").decode("latin-1")
            if character is None or character not in _CHARACTERS:
                place = Position(token.position.line, token.position.column + match.start() + 2)
                raise self.builder.error(place, "Invalid escape sequence in string literal.")
            return _CHARACTERS[character]

        # Each character stands for one byte.
        text = token.text[1:-1].encode().decode("latin-1")
        return _ESCAPE.sub(byte, text).encode("latin-1")

    def _error(self, expected: str) -> Exception:
        found = "the end of the text" if self._next.kind == "end" else f"'{self._next.text}'"
        return self.builder.error(self._next.position, f"expected {expected}, found {found}")


def _decimal(token: _Token) -> str:
    """Returns a number in decimal and without C's suffix."""
    if token.kind == "float":
        return token.text.rstrip("fF")
    if token.kind == "integer" and len(token.text) > 1 and token.text[0] == "0":
        try:
            return str(int(token.text, 16 if token.text[1] in "xX" else 8))
        except ValueError:
            return token.text
    return token.text
