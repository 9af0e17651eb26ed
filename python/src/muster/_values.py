"""Values of a job's fields as people write them: sizes with units, choices in any case, whole numbers such as 1e6.

The rules are those of common/job_text/store_value.h. What is of no such form is left as it is, to the reader that knows all types.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from muster.errors import InvalidArgument

_SIZE = re.compile(r"([0-9]*)\s*(?:([kmgtpe])(?:ib?|b)?|b)", re.IGNORECASE)
_UNITS = " kmgtpe"
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)
# Up to here every whole number is exact as a floating-point one.
_MOST_EXACT = 2**53
_MOST_BYTES = 2**64 - 1
_WHOLE = (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64)  # fmt: skip


def plain_fields(fields: Mapping[Any, object], group: Descriptor, path: str = "") -> dict[Any, object]:
    """Returns the fields with each value as protobuf's reader of JSON takes it. `path` leads to the group, for errors.

    Raises:
        InvalidArgument: a size is none.
    """
    plain = {}
    path = path or group.name
    for name, value in fields.items():
        field = None
        if isinstance(name, str):
            field = group.fields_by_name.get(name) or group.fields_by_camelcase_name.get(name)
        plain[name] = value if field is None else _field(value, field, f"{path}.{field.name}")
    return plain


def _field(value: object, field: FieldDescriptor, path: str) -> object:
    """Returns the value of a field: one, a list of them, or a map."""
    if field.message_type and field.message_type.GetOptions().map_entry:
        inner = field.message_type.fields_by_name["value"]
        return {name: _one(each, inner, f"{path}.{name}") for name, each in value.items()} if isinstance(value, Mapping) else value
    if field.label == FieldDescriptor.LABEL_REPEATED and isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [_one(each, field, path) for each in value]
    return _one(value, field, path)


def _one(value: object, field: FieldDescriptor, path: str) -> object:
    if field.message_type:
        return plain_fields(value, field.message_type, path) if isinstance(value, Mapping) else value
    if not isinstance(value, str):
        return value
    if field.enum_type:
        name = value.upper().replace("-", "_")
        return name if name in field.enum_type.values_by_name else value
    if field.cpp_type not in _WHOLE:
        return value
    whole = _whole_number(value)
    if whole is None and field.cpp_type == FieldDescriptor.CPPTYPE_UINT64 and field.name.endswith("_bytes"):
        return _bytes(value, path)
    return value if whole is None else whole


def _whole_number(text: str) -> int | None:
    """Returns the number that a text such as 3, 1e6 or 2.0 stands for; None if it stands for no whole one."""
    text = text.strip()
    if not _NUMBER.fullmatch(text):
        return None
    if text.lstrip("+-").isdigit():
        return int(text)
    number = float(text)
    return int(number) if abs(number) <= _MOST_EXACT and number.is_integer() else None


def _bytes(text: str, path: str) -> int:
    """Returns the number of bytes that a text such as 64KiB stands for; a unit without a number is one of it."""
    found = _SIZE.fullmatch(text.strip())
    if found is not None:
        number: int = int(found[1] or 1) * 1024 ** _UNITS.index((found[2] or " ").lower())
        if number <= _MOST_BYTES:
            return number
    raise InvalidArgument(f'{path} is "{text}"; expected a number of bytes, such as 65536, 64KiB or 1GiB')
