"""Reads tensors from a safetensors file as its bytes arrive."""

from __future__ import annotations

import json
import math
from typing import Any, Literal

from muster import _requirements
from muster.errors import Error, InvalidArgument

Library = Literal["numpy", "torch"]

# Types of the format, and of libraries, by size in bytes. torch has no unsigned types but u8 and takes the signed ones of
# the same size; numpy has no bf16.
_SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "U64": 8, "I32": 4, "U32": 4, "I16": 2, "U16": 2, "I8": 1,
          "U8": 1, "BOOL": 1}  # fmt: skip
_NUMPY = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "U64": "<u8", "I32": "<i4", "U32": "<u4", "I16": "<i2",
          "U16": "<u2", "I8": "i1", "U8": "u1", "BOOL": "?"}  # fmt: skip
_TORCH = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "U64": "int64",
          "I32": "int32", "U32": "int32", "I16": "int16", "U16": "int16", "I8": "int8", "U8": "uint8",
          "BOOL": "bool"}  # fmt: skip
_LENGTH_BYTES = 8
_MOST_HEADER_BYTES = 100 << 20


class TensorReader:
    """Takes the parts of a file in order. A tensor's bytes are copied once, into the array that is returned."""

    def __init__(self, library: Library) -> None:
        """Raises InvalidArgument if there is no such library, ImportError if it is not installed."""
        if library not in ("numpy", "torch"):
            raise InvalidArgument(f'library is "{library}"; expected "numpy" or "torch"')
        self._library = _requirements.optional(library, "reading weights")
        self._array = _numpy_array if library == "numpy" else _torch_array
        self._types = _NUMPY if library == "numpy" else _TORCH
        self._head = bytearray()
        self._arrays: dict[str, Any] | None = None
        # The places that are not yet filled, the first one last, and how much of it is.
        self._places: list[memoryview] = []
        self._filled = 0

    def add(self, part: bytes) -> None:
        """Takes the next part."""
        data = memoryview(part)
        if self._arrays is None:
            self._head += part
            if len(self._head) < _LENGTH_BYTES:
                return
            length = int.from_bytes(self._head[:_LENGTH_BYTES], "little")
            if length > _MOST_HEADER_BYTES:
                raise _damage(f"its header would have {length} bytes")
            end = _LENGTH_BYTES + length
            if len(self._head) < end:
                return
            self._arrays = self._read_header(bytes(self._head[_LENGTH_BYTES:end]))
            data = memoryview(bytes(self._head[end:]))
            self._head.clear()
        while data and self._places:
            place = self._places[-1]
            count = min(len(data), len(place) - self._filled)
            place[self._filled : self._filled + count] = data[:count]
            data = data[count:]
            self._filled += count
            if self._filled == len(place):
                self._places.pop()
                self._filled = 0
        if data:
            raise _damage("it has more bytes than tensors")

    def finish(self) -> dict[str, Any]:
        """Returns the tensors by name. Raises Error if the file is not whole."""
        if self._arrays is None or self._places:
            raise _damage("it ends too early")
        return self._arrays

    def _read_header(self, text: bytes) -> dict[str, Any]:
        """Returns the arrays, whose elements come with the next parts."""
        try:
            header = json.loads(text)
        except ValueError:
            raise _damage(f"its header of {len(text)} bytes is no JSON") from None
        header.pop("__metadata__", None)
        arrays = {}
        reached = 0
        # In order of their bytes.
        for begin, end, name in sorted((*tensor["data_offsets"], name) for name, tensor in header.items()):
            tensor = header[name]
            size = math.prod(tensor["shape"]) * _SIZES.get(tensor["dtype"], 0)
            if tensor["dtype"] not in self._types:
                raise Error("UNIMPLEMENTED", f"{name} has the type {tensor['dtype']}, which {self._library.__name__} lacks")
            if begin != reached or end - begin != size:
                raise _damage(f"{name} is said to be at bytes {begin} to {end}, but has {size} bytes from {reached} on")
            reached = end
            data = bytearray(size)
            arrays[name] = self._array(self._library, data, self._types[tensor["dtype"]], tensor["shape"])
            if size:
                self._places.append(memoryview(data))
        self._places.reverse()
        return arrays


def _numpy_array(numpy: Any, data: bytearray, dtype: str, shape: list[int]) -> Any:
    return numpy.ndarray(shape, dtype, data)


def _torch_array(torch: Any, data: bytearray, dtype: str, shape: list[int]) -> Any:
    kind = getattr(torch, dtype)
    # torch.frombuffer refuses an empty buffer.
    return torch.frombuffer(data, dtype=kind).reshape(shape) if data else torch.empty(shape, dtype=kind)


def _damage(what: str) -> Error:
    return Error("DATA_LOSS", f"the coordinator's safetensors file is damaged: {what}")
