"""Writes a tree's values into a message, as client/job_text/fill_message does in C++."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from muster._job_text.nearest_name import did_you_mean
from muster._job_text.tree import Kind, Node, text_error
from muster._job_text.values import Expected, value_of

# Most characters of a value to show in an error.
_MOST_SHOWN = 80
# More paths would be no help.
_MOST_PATHS = 3
_DEEPEST_PATH = 4
_STEP = re.compile(r"([^\[]+)(?:\[\s*\+?([0-9]+)\s*\])?\Z")


def fill(root: Node, origin: str, message: Message) -> None:
    """Writes the values of a tree into the fields of an empty message.

    Fields are named as `batch_size` or `batchSize`. A single value is a list of one where a list is expected. A map's names
    are written as a group's fields, or in protobuf's text format as `key` and `value` of each entry. A name without a value
    leaves a value as it is, and selects a group.

    Raises:
        InvalidArgument: begins with `origin` and the place; a field is unknown, has no value of its type, is given twice, or
            is given beside another field of the same oneof.
    """
    _Filler(origin).group(root, "", message)


def assign(path: str, value: Node, origin: str, message: Message) -> None:
    """Writes one value, as in `optimizer.learning_rate`, `model.mlp.hidden[0]` or `labels.team`.

    A number selects a list's element, and the number of elements appends one. A list replaces the whole list, a group the
    whole group or map, and nothing (None) clears the field.

    Raises:
        InvalidArgument: as `fill`; or the path leads nowhere, or into another choice of a oneof than the message has made.
    """
    filler = _Filler(origin)
    words = path.split(".")
    current, walked = message, ""
    for i, word in enumerate(words):
        last = i + 1 == len(words)
        step = _parse_step(word)
        if step is None:
            shown = f'"{_shown(word)}" is not the name of a field, with or without an index, as in model.mlp.hidden[0]'
            raise filler.error(Node(), shown)
        field = _find_field(current.DESCRIPTOR, step.name)
        if field is None:
            raise filler.error(Node(), _unknown_field(current.DESCRIPTOR, walked, step.name))
        other = _other_choice(walked, field, current)
        if other and not (last and value.kind is Kind.NOTHING):
            raise filler.error(Node(), other)
        walked = _join(walked, field)
        if _is_map(field):
            if last and step.number is None and value.kind in (Kind.GROUP, Kind.NOTHING):
                current.ClearField(field.name)
                filler.field(value, walked, field, current)
                return
            if step.number is not None or last:
                raise filler.error(Node(), f"{walked} holds names with values; give one as in {walked}.NAME=VALUE")
            # A name may have dots.
            filler.map_value(value, walked, ".".join(words[i + 1 :]), field, current)
            return
        if step.number is not None and not _is_list(field):
            raise filler.error(Node(), f"{walked} is not a list; leave the index out")
        if last:
            _assign_last(filler, step, walked, value, field, current)
            return
        if field.message_type is None:
            raise filler.error(Node(), f"{walked} is a single value and has no fields")
        if _is_list(field) and step.number is None:
            raise filler.error(Node(), f"{walked} is a list; give the index of an element, as in {walked}[0]")
        current = _enter(filler, step, walked, field, current)


class _Step(NamedTuple):
    """A field's name in a path, and the number of an element behind it."""

    name: str
    number: int | None


def _parse_step(word: str) -> _Step | None:
    match = _STEP.match(word)
    return None if match is None else _Step(match[1], None if match[2] is None else int(match[2]))


def _enter(filler: _Filler, step: _Step, path: str, field: FieldDescriptor, message: Message) -> Any:
    """Returns the message that a step leads into."""
    if step.number is None:
        inner = getattr(message, field.name)
        inner.SetInParent()
        return inner
    elements = getattr(message, field.name)
    if step.number < len(elements):
        return elements[step.number]
    if step.number == len(elements):
        return elements.add()
    raise filler.error(Node(), f"{path} has {len(elements)} elements, counted from 0")


def _assign_last(filler: _Filler, step: _Step, path: str, value: Node, field: FieldDescriptor, message: Message) -> None:
    if field.message_type is not None and value.kind is Kind.VALUE:
        raise filler.error(
            Node(), f"{path} is a group of fields; name one of them: {_field_list(field.message_type)}"
        )
    if step.number is None:
        if value.kind is Kind.NOTHING or field.message_type is not None or _is_list(field):
            message.ClearField(field.name)
        if value.kind is not Kind.NOTHING:
            filler.field(value, path, field, message)
        return
    elements = getattr(message, field.name)
    if step.number > len(elements):
        raise filler.error(Node(), f"{path} has {len(elements)} elements, counted from 0")
    filler.field(value, f"{path}[{step.number}]", field, message)
    if step.number < len(elements) - 1:
        new = elements.pop()
        if field.message_type is not None:
            elements[step.number].CopyFrom(new)
        else:
            elements[step.number] = new


class _Filler:
    """Fills messages with the values of one text."""

    def __init__(self, origin: str) -> None:
        self._origin = origin

    def error(self, node: Node, message: str) -> Exception:
        return text_error(self._origin, node.position, message)

    def group(self, group: Node, path: str, message: Message) -> None:
        """Fills a message."""
        if path:
            message.SetInParent()
        if group.kind is Kind.NOTHING and path:
            return
        if group.kind is not Kind.GROUP:
            expected = f"expected a group of fields: {_field_list(message.DESCRIPTOR)}"
            raise self.error(group, f"{path or 'the whole text'} is {_described(group)}; {expected}")
        given = set()
        for entry in group.entries:
            at = Node(position=entry.position)
            field = _find_field(message.DESCRIPTOR, entry.name)
            if field is None:
                raise self.error(at, _unknown_field(message.DESCRIPTOR, path, entry.name))
            if not _is_list(field) and field.name in given:
                raise self.error(at, f"{_join(path, field)} is given twice; give it once")
            given.add(field.name)
            other = _other_choice(path, field, message)
            if other:
                raise self.error(at, other)
            self.field(entry.node, _join(path, field), field, message)

    def field(self, node: Node, path: str, field: FieldDescriptor, message: Message) -> None:
        """Sets a field, or adds elements to it."""
        if _is_map(field):
            self._map(node, path, field, message)
        elif _is_list(field) and node.kind is Kind.LIST:
            for item in node.items:
                if item.kind is Kind.NOTHING:
                    raise self.error(item, f"{path} has an empty element; leave the element out")
                self._one(item, path, field, message)
        else:
            self._one(node, path, field, message)

    def map_value(self, node: Node, path: str, name: str, field: FieldDescriptor, message: Message) -> None:
        """Sets the value of one name of a map."""
        value_field = field.message_type.fields_by_name["value"]
        entries = getattr(message, field.name)
        value = self._single(node, f"{path}.{name}", value_field)
        # A name without a value has the empty one.
        entries[name] = entries[name] if value is None else value

    def _map(self, node: Node, path: str, field: FieldDescriptor, message: Message) -> None:
        if node.names_repeat:
            entry = field.message_type._concrete_class()
            self.group(node, path, entry)
            getattr(message, field.name)[entry.key] = entry.value
            return
        if node.kind is Kind.NOTHING:
            return
        if node.kind is not Kind.GROUP:
            raise self.error(node, f"{path} is {_described(node)}; expected names with values, as in `NAME: VALUE`")
        for each in node.entries:
            self.map_value(each.node, path, each.name, field, message)

    def _one(self, node: Node, path: str, field: FieldDescriptor, message: Message) -> None:
        """Sets the field, or adds one element."""
        if field.message_type is not None:
            inner = getattr(message, field.name)
            self.group(node, path, inner.add() if _is_list(field) else inner)
            return
        value = self._single(node, path, field)
        if value is None:
            return
        if _is_list(field):
            getattr(message, field.name).append(value)
        else:
            setattr(message, field.name, value)

    def _single(self, node: Node, path: str, field: FieldDescriptor) -> Any:
        """Returns a value of a field's type; None if the node has none."""
        if node.kind is Kind.NOTHING:
            return None
        if node.kind is not Kind.VALUE:
            raise self.error(node, f"{path} is {_described(node)}; expected one value")
        try:
            return value_of(node, field)
        except Expected as expected:
            raise self.error(node, f"{path} is {_described(node)}; {expected}") from None


def _shown(value: str) -> str:
    return value if len(value) <= _MOST_SHOWN else f"{value[:_MOST_SHOWN]}…"


def _described(node: Node) -> str:
    if node.kind is Kind.VALUE:
        return f'"{_shown(node.value)}"'
    return {Kind.NOTHING: "empty", Kind.LIST: "a list"}.get(node.kind, "a group of fields")


def _is_list(field: FieldDescriptor) -> bool:
    return bool(field.label == FieldDescriptor.LABEL_REPEATED)


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _find_field(kind: Descriptor, name: str) -> FieldDescriptor | None:
    return kind.fields_by_name.get(name) or kind.fields_by_camelcase_name.get(name)


def _join(path: str, field: FieldDescriptor) -> str:
    return f"{path}.{field.name}" if path else str(field.name)


def _field_list(kind: Descriptor) -> str:
    names = [each.name for each in kind.fields]
    return f"it has {', '.join(names)}" if names else "it has none at all"


def _unknown_field(kind: Descriptor, path: str, name: str) -> str:
    """Returns what to say of a field that a message does not have; `path` leads to the message."""
    message = f'{path or "a job"} has no field "{_shown(name)}"'
    near = did_you_mean(name, [each.name for each in kind.fields])
    if near:
        return message + near
    below = list(_paths_below(kind, name, path, 0))
    if 0 < len(below) <= _MOST_PATHS:
        return f"{message}; did you mean {' or '.join(below)}?"
    return f"{message}; {_field_list(kind)}"


def _paths_below(kind: Descriptor, name: str, path: str, depth: int) -> Any:
    """Yields the paths of all fields of this name below a message."""
    if depth == _DEEPEST_PATH:
        return
    for field in kind.fields:
        below = _join(path, field)
        if field.name == name:
            yield below
        if field.message_type is not None and not _is_map(field):
            yield from _paths_below(field.message_type, name, below, depth + 1)


def _other_choice(path: str, field: FieldDescriptor, message: Message) -> str:
    """Returns what to say if another field of the same oneof is set; empty if none is."""
    choice = field.containing_oneof
    chosen = None if choice is None else message.WhichOneof(choice.name)
    # An `optional` field is alone in a oneof of its own.
    if choice is None or chosen is None or chosen == field.name:
        return ""
    names = ", ".join(each.name for each in choice.fields)
    prefix = f"{path}." if path else ""
    return f"{prefix}{field.name} and {prefix}{chosen} are both given; give one of {names}"
