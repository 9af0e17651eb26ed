"""Reads jobs from YAML, JSON and protobuf's text format, and changes their fields, by protobuf's and PyYAML's readers."""

from __future__ import annotations

import json
import os
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf import json_format, text_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from muster import _requirements
from muster._values import plain_fields
from muster.errors import InvalidArgument

_STEP = re.compile(r"(\w+)(?:\[([0-9]+)\])?")
# A line that begins a group in protobuf's text format; neither YAML nor JSON has such lines.
_GROUP = re.compile(r"^\s*\w+\s*\{", re.MULTILINE)


def parse(text: str, origin: str, message: Message) -> None:
    """Writes the fields of a text into an empty message. The ending of `origin` names the notation, else the text shows it.

    Raises:
        InvalidArgument: begins with `origin`, and with line and column where the reader gives them.
    """
    ending = pathlib.PurePath(origin).suffix.lower()
    if ending not in (".yaml", ".yml", ".json", ".textproto", ".pbtxt"):
        ending = ".json" if text.lstrip().startswith("{") else ".textproto" if _GROUP.search(text) else ".yaml"
    try:
        if ending == ".json":
            _fill(_read_json(text, origin), origin, message)
        elif ending in (".yaml", ".yml"):
            _fill(_read_yaml(text, origin), origin, message)
        else:
            text_format.Parse(text, message)
    except text_format.ParseError as error:
        # Its text repeats the place.
        said = re.sub(r"^\d+:\d+ : ", "", str(error))
        raise _error(origin, said, error.GetLine(), error.GetColumn()) from None
    except RecursionError:
        raise _error(origin, "lists and groups are nested far deeper than any job's") from None


def fill(fields: object, origin: str, message: Message) -> None:
    """Writes fields by name into an empty message. Values may be paths, tuples, and numbers and arrays of numpy and torch.

    Raises:
        InvalidArgument: begins with `origin`; a field is unknown, or its value is none of its type.
    """
    _fill(_plain(fields), origin, message)


def _fill(fields: object, origin: str, message: Message) -> None:
    if not isinstance(fields, Mapping):
        raise _error(origin, f"the job is a {type(fields).__name__}; expected fields with values")
    try:
        json_format.ParseDict(plain_fields(fields, message.DESCRIPTOR), message)
    except (json_format.ParseError, InvalidArgument) as error:
        raise _error(origin, str(error)) from None


def assign(path: str, value: object, message: Message) -> None:
    """Writes one value, as in `optimizer.learning_rate`, `model.mlp.hidden[0]` or `labels.team`.

    A number selects a list's element, and the number of elements appends one. A list replaces the whole list, a dict the
    whole group or map, and None clears the field. If this fails, the message may have changed.

    Raises:
        InvalidArgument: as `fill`; or the path leads nowhere, or into another choice of a oneof than the message has made.
    """
    words = path.split(".")
    inner: Any = message
    for i, word in enumerate(words):
        step = _STEP.fullmatch(word)
        field: Any = inner.DESCRIPTOR.fields_by_name.get(step[1]) if step else None
        if step is None or field is None:
            names = ", ".join(each.name for each in inner.DESCRIPTOR.fields)
            raise _error(path, f'{".".join(words[:i]) or "a job"} has no field "{word}"; it has {names}')
        last = i + 1 == len(words)
        chosen = field.containing_oneof and inner.WhichOneof(field.containing_oneof.name)
        if chosen and chosen != field.name and not (last and value is None):
            raise _error(path, f"{chosen} is set, and only one of {chosen} and {field.name} may be; clear {chosen} first")
        if last or (field.message_type and field.message_type.GetOptions().map_entry):
            _assign_field(path, step[2], ".".join(words[i + 1 :]), value, field, inner)
            return
        if field.message_type is None or step[2]:
            raise _error(path, f"{'.'.join(words[: i + 1])} is no group of fields")
        inner = getattr(inner, field.name)
        inner.SetInParent()


def _assign_field(path: str, index: str | None, key: str, value: object, field: FieldDescriptor, message: Message) -> None:
    """Sets a field, the element `index` of a list, or the value of one name of a map, which may have dots."""
    if index is not None:
        if field.label != FieldDescriptor.LABEL_REPEATED or field.message_type:
            raise _error(path, f"{field.name} is not a list; leave the index out")
        elements = list(getattr(message, field.name))
        if int(index) > len(elements):
            raise _error(path, f"{field.name} has {len(elements)} elements, counted from 0")
        elements[int(index) : int(index) + 1] = [value]
        value = elements
    elif key:
        named = {**getattr(message, field.name), key: value}
        value = {name: each for name, each in named.items() if each is not None}
    message.ClearField(field.name)
    fill({field.name: value}, path, message)


def _plain(value: object) -> object:
    """Returns a value in the types that JSON has; what is of another type is left to whoever refuses it."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray)):
        return [_plain(each) for each in value]
    return value.tolist() if hasattr(value, "tolist") else value


def _read_json(text: str, origin: str) -> object:
    def group(pairs: list[tuple[str, object]]) -> dict[str, object]:
        fields: dict[str, object] = {}
        for name, value in pairs:
            if name in fields:
                raise _error(origin, f'"{name}" is given twice; give it once')
            fields[name] = value
        return fields

    try:
        return json.loads(text, object_pairs_hook=group)
    except json.JSONDecodeError as error:
        raise _error(origin, error.msg, error.lineno, error.colno) from None


def _read_yaml(text: str, origin: str) -> object:
    # Imported here, so that a program that reads no YAML does not need it.
    _requirements.optional("yaml", "reading a job in YAML")
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """PyYAML's safe loader, which would take the last of several fields with one name."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            names = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.value in names:
                    said = f'"{key.value}" is given twice; give it once'
                    raise yaml.constructor.ConstructorError(problem=said, problem_mark=key.start_mark)
                names.add(key.value if isinstance(key, yaml.ScalarNode) else None)
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(text, Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        raise _error(origin, error.problem or error.context, line, column) from None
    except (yaml.YAMLError, ValueError) as error:
        # A ValueError is a date that there is not, for example.
        raise _error(origin, str(error)) from None


def _error(origin: str, message: str, line: int | None = None, column: int | None = None) -> InvalidArgument:
    place = f":{line}" if line else ""
    place += f":{column}" if line and column else ""
    return InvalidArgument(f"{origin}{place}: {' '.join(message.split())}")
