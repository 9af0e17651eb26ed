"""Turns a value's text into a value of a field's type, as client/job_text/store_value does in C++."""

from __future__ import annotations

import math
import re
from typing import Union

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor

from muster._job_text.nearest_name import did_you_mean
from muster._job_text.tree import Node

Value = Union[bool, int, float, str]

_RANGES = {
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
}
_MOST_FLOAT = 3.4028234663852886e38
# Up to here every whole number is exact in a double.
_MOST_EXACT = 2**53
_WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*\Z")
_NUMBER = re.compile(r"\s*[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf(?:inity)?|nan)\s*\Z", re.IGNORECASE)
_SIZE = re.compile(r"\s*([0-9]+)\s*(?:([kmgtpe])(?:b|i|ib)?|b)\s*\Z", re.IGNORECASE)
_YES = ("true", "yes", "on", "t", "1")
_NO = ("false", "no", "off", "f", "0")


class Expected(Exception):
    """The text is no value of the field's type; the message says what would be."""

    def __init__(self, what: str) -> None:
        super().__init__(f"expected {what}")


def value_of(node: Node, field: FieldDescriptor) -> Value:
    """Returns a node's value in the type of a field, which is no message.

    Raises:
        Expected: the text is none.
    """
    kind = field.cpp_type
    if kind in _RANGES:
        return _whole(node.value, field)
    if kind == FieldDescriptor.CPPTYPE_FLOAT:
        return _floating(node.value, _MOST_FLOAT, "3.40282e+38")
    if kind == FieldDescriptor.CPPTYPE_DOUBLE:
        return _floating(node.value, math.inf, "")
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return _bool(node.value)
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return _enum(node.value, field.enum_type)
    if not node.may_be_text:
        raise Expected("a text, in quotes")
    return node.value


def _whole_number(text: str) -> int | None:
    if _WHOLE.match(text):
        return int(text)
    number = _number(text)
    if number is not None and abs(number) <= _MOST_EXACT and math.floor(number) == number:
        return int(number)
    return None


def _whole(text: str, field: FieldDescriptor) -> int:
    least, most = _RANGES[field.cpp_type]
    number = _whole_number(text)
    # A number of bytes may have a unit, as in flags.
    counts_bytes = field.cpp_type == FieldDescriptor.CPPTYPE_UINT64 and field.name.endswith("_bytes")
    size = _SIZE.match(text)
    if number is None and counts_bytes and size:
        number = int(size[1]) << (10 * (" kmgtpe".index((size[2] or " ").lower())))
    if number is not None and least <= number <= most:
        return number
    if counts_bytes:
        raise Expected("a number of bytes, such as 65536, 64KiB or 1GiB")
    raise Expected(f"a whole number from {least} to {most}")


def _number(text: str) -> float | None:
    return float(text) if _NUMBER.match(text) else None


def _floating(text: str, most: float, shown: str) -> float:
    number = _number(text)
    if number is None:
        raise Expected("a number, such as 0.1 or 3e-4")
    if math.isfinite(number) and abs(number) > most:
        raise Expected(f"a number of at most {shown}")
    return number


def _bool(text: str) -> bool:
    word = text.lower()
    if word in _YES or word in _NO:
        return word in _YES
    raise Expected("true or false")


def _enum(text: str, kind: EnumDescriptor) -> int:
    value = kind.values_by_name.get(text.replace("-", "_").upper())
    if value is None and _WHOLE.match(text):
        value = kind.values_by_number.get(int(text))
    if value is not None:
        return int(value.number)
    # 0 stands for left out.
    names = [each.name for each in kind.values if each.number != 0]
    raise Expected(("" if len(names) == 1 else "one of ") + ", ".join(names) + did_you_mean(text, names))
