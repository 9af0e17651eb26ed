"""The tree that a job's text becomes, in any notation."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence

from muster.errors import InvalidArgument

MOST_DEPTH = 64
# Far more than any job takes; a node counts as NODE_WEIGHT bytes.
MOST_WEIGHT = 8 << 20
NODE_WEIGHT = 128


@dataclasses.dataclass(frozen=True)
class Position:
    """A place in a text; line and column count from 1. Line 0: not in a file."""

    line: int = 0
    column: int = 0


def text_error(origin: str, position: Position, message: str) -> InvalidArgument:
    """Returns an error that begins with the place."""
    place = f":{position.line}:{position.column}" if position.line else ""
    return InvalidArgument(f"{origin}{place}: {message}")


class Kind(enum.Enum):
    """What a node is. NOTHING: a name without a value."""

    NOTHING = 0
    VALUE = 1
    LIST = 2
    GROUP = 3


@dataclasses.dataclass
class Entry:
    """A name of a group, and what it names."""

    name: str
    position: Position
    node: Node


@dataclasses.dataclass
class Node:
    """One value of a job's text.

    Attributes:
        value: a value as it is written, without quotes.
        may_be_text: the value may be a text: it is in quotes, or the notation needs none.
        entries: in the file's order.
        names_repeat: the notation gives a field's name once for each element of a list, and writes an entry of a map as a
            group with `key` and `value`.
    """

    kind: Kind = Kind.NOTHING
    position: Position = Position()
    value: str = ""
    may_be_text: bool = False
    items: list[Node] = dataclasses.field(default_factory=list)
    entries: list[Entry] = dataclasses.field(default_factory=list)
    names_repeat: bool = False


def weight_of(node: Node) -> int:
    """Returns about what a node with all its parts takes in memory."""
    below = sum(map(weight_of, node.items)) + sum(len(each.name) + weight_of(each.node) for each in node.entries)
    return NODE_WEIGHT + len(node.value) + below


def tree_of(value: object, path: str = "") -> Node:
    """Returns the tree of a Python value: None, a bool, a number, a text, a sequence or a mapping.

    Raises:
        InvalidArgument: the value is of another type; names `path`.
    """
    if value is None:
        return Node()
    if isinstance(value, Mapping):
        entries = [Entry(str(name), Position(), tree_of(each, f"{path}.{name}")) for name, each in value.items()]
        return Node(Kind.GROUP, entries=entries)
    if isinstance(value, bool):
        return Node(Kind.VALUE, value=str(value).lower())
    if isinstance(value, str):
        return Node(Kind.VALUE, value=value, may_be_text=True)
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return Node(Kind.LIST, items=[tree_of(each, path) for each in value])
    # Numbers of numpy say what they are by these methods, too.
    if hasattr(value, "__index__"):
        return Node(Kind.VALUE, value=str(value.__index__()))
    if hasattr(value, "__float__"):
        return Node(Kind.VALUE, value=repr(float(value)))
    # A path, for example.
    if hasattr(value, "__fspath__"):
        return Node(Kind.VALUE, value=str(value), may_be_text=True)
    shown = path.lstrip(".") or "a job"
    raise InvalidArgument(f"{shown} is a {type(value).__name__}; expected None, a bool, a number, a text, a list or a dict")


class TreeBuilder:
    """Makes a tree of a parser's events. Every method may raise an InvalidArgument that names the place."""

    def __init__(self, origin: str, *, names_repeat: bool) -> None:
        self._origin = origin
        self._names_repeat = names_repeat
        self._open: list[_Open] = []
        self._weight = 0
        self.root = Node()
        self.last = self.root

    def begin(self, kind: Kind, position: Position) -> None:
        """Opens a group or a list."""
        self.count(NODE_WEIGHT, position)
        if len(self._open) == MOST_DEPTH:
            raise self.error(
                position, f"groups and lists are nested more than {MOST_DEPTH} deep here; no field of a job is"
            )
        self._open.append(_Open(Node(kind, position, names_repeat=self._names_repeat)))

    def end(self) -> None:
        """Closes what was opened last."""
        # It and its parts were counted when they came.
        self._attach(self._open.pop().node)

    def name(self, name: str, position: Position) -> None:
        """Takes the name of the value that comes next."""
        self.count(len(name), position)
        top = self._open[-1]
        if name in top.lines and not self._names_repeat:
            raise self.error(position, f'"{name}" was given in line {top.lines[name]} already; give it once')
        top.lines.setdefault(name, position.line)
        top.name = name
        top.name_position = position

    def add(self, node: Node) -> None:
        """Takes a value."""
        self.count(weight_of(node), node.position)
        self._attach(node)

    def expects_name(self) -> bool:
        """Returns True if a group is open whose next name has not come."""
        return bool(self._open) and self._open[-1].node.kind is Kind.GROUP and self._open[-1].name is None

    def count(self, weight: int, position: Position) -> None:
        """Counts what the tree takes in memory."""
        self._weight += weight
        if self._weight > MOST_WEIGHT:
            raise self.error(position, "the text up to here is far larger than any job; is it the right file?")

    def error(self, position: Position, message: str) -> InvalidArgument:
        """Returns an error at a place of this text."""
        return text_error(self._origin, position, message)

    def _attach(self, node: Node) -> None:
        self.last = node
        if not self._open:
            self.root = node
            return
        top = self._open[-1]
        if top.node.kind is Kind.LIST:
            top.node.items.append(node)
            return
        assert top.name is not None
        top.node.entries.append(Entry(top.name, top.name_position, node))
        top.name = None


class _Open:
    """A group or list that has not ended."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.name: str | None = None
        self.name_position = Position()
        # The line in which each name came first.
        self.lines: dict[str, int] = {}
