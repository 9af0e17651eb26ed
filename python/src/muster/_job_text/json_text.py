"""Reads JSON."""

from __future__ import annotations

import json.decoder
import re

from muster._job_text.tree import Kind, Node, Position, TreeBuilder

_BLANKS = re.compile(r"[ \t\r\n]*")
_WORD = re.compile(r"null|true|false|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


def parse_json(text: str, origin: str) -> Node:
    """Returns the tree of a text in JSON. Null counts as left out.

    Raises:
        InvalidArgument: says what is wrong, with line and column.
    """
    reader = _Reader(text, origin)
    reader.value()
    reader.expect_end()
    return reader.builder.root


class _Reader:
    """Goes over the text from left to right, by recursive descent."""

    def __init__(self, text: str, origin: str) -> None:
        self.builder = TreeBuilder(origin, names_repeat=False)
        self._text = text
        self._at = 0
        # The last position that was asked for; positions never go back.
        self._counted = 0
        self._line = 1
        self._line_start = 0

    def value(self, name: tuple[str, Position] | None = None) -> None:
        """Takes one value; `name` is its name in a group."""
        self._skip_blanks()
        position = self._position()
        word = _WORD.match(self._text, self._at)
        if word and word[0] == "null" and name is not None:
            self._at = word.end()
            return
        if name is not None:
            self.builder.name(*name)
        if self._take("{"):
            self.builder.begin(Kind.GROUP, position)
            self._elements("}", self._entry)
        elif self._take("["):
            self.builder.begin(Kind.LIST, position)
            self._elements("]", self.value)
        elif self._next() == '"':
            self.builder.add(Node(Kind.VALUE, position, self._string(), may_be_text=True))
        elif word is None:
            raise self._error("a value")
        else:
            self._at = word.end()
            self.builder.add(Node(position=position) if word[0] == "null" else Node(Kind.VALUE, position, word[0]))

    def expect_end(self) -> None:
        """Refuses anything after the value."""
        self._skip_blanks()
        if self._at < len(self._text):
            raise self._error("the end of the text")

    def _elements(self, close: str, take) -> None:  # type: ignore[no-untyped-def]
        self._skip_blanks()
        if not self._take(close):
            take()
            self._skip_blanks()
            while not self._take(close):
                if not self._take(","):
                    raise self._error(f"',' or '{close}'")
                take()
                self._skip_blanks()
        self.builder.end()

    def _entry(self) -> None:
        self._skip_blanks()
        position = self._position()
        if self._next() != '"':
            raise self._error("a name in quotes")
        name = self._string()
        self._skip_blanks()
        if not self._take(":"):
            raise self._error("':'")
        self.value((name, position))

    def _string(self) -> str:
        try:
            text, self._at = json.decoder.scanstring(self._text, self._at + 1, True)  # type: ignore[attr-defined]
        except json.JSONDecodeError as error:
            self._at = error.pos
            raise self.builder.error(self._position(), f"this is not JSON: {error.msg}") from None
        return str(text)

    def _skip_blanks(self) -> None:
        blanks = _BLANKS.match(self._text, self._at)
        assert blanks is not None
        self._at = blanks.end()

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, character: str) -> bool:
        if self._next() != character:
            return False
        self._at += 1
        return True

    def _position(self) -> Position:
        lines = self._text.count("\n", self._counted, self._at)
        if lines:
            self._line += lines
            self._line_start = self._text.rindex("\n", self._counted, self._at) + 1
        self._counted = self._at
        return Position(self._line, self._at - self._line_start + 1)

    def _error(self, expected: str) -> Exception:
        found = f"'{self._next()}'" if self._next() else "the end of the text"
        return self.builder.error(self._position(), f"this is not JSON: expected {expected}, found {found}")
