"""Loads the package's shared libraries of C functions, and raises what went wrong in a call of one."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import os
import pathlib
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from muster.errors import Error

# absl::StatusCode, by number.
_CODES = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
    "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL",
    "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)  # fmt: skip


@dataclasses.dataclass(frozen=True, eq=False)
class Library:
    """A shared library.

    Attributes:
        purpose: what needs it, for errors.
        file: its name beside this file.
        variable: the environment variable that names another file.
        prefix: begins the names of all of its functions. PREFIX_abi_version and PREFIX_error are those of the C headers.
        abi_version: the version of the functions that this package takes.
        functions: by the rest of its name, a function's result and arguments.
    """

    purpose: str
    file: str
    variable: str
    prefix: str
    abi_version: int
    functions: Mapping[str, tuple[Any, Sequence[Any]]]


@functools.cache
def load(library: Library) -> ctypes.CDLL:
    """Returns the library's functions. It is loaded once.

    Raises:
        Error: this installation has no such library, or one of another release.
    """
    path = os.environ.get(library.variable) or str(pathlib.Path(__file__).with_name(library.file))
    try:
        loaded = ctypes.CDLL(path)
    except OSError as error:
        raise Error(
            "UNIMPLEMENTED",
            f"{library.purpose} need {library.file}, which cannot be loaded ({error}); install the wheel of "
            f"`./muster package`, or from a checkout whose programs are built, or name the library in {library.variable}",
        ) from None
    version = getattr(loaded, f"{library.prefix}_abi_version")()
    if version != library.abi_version:
        raise Error(
            "UNIMPLEMENTED",
            f"{path} has version {version} of the functions, and this package takes {library.abi_version}; install both from "
            "one release",
        )
    getattr(loaded, f"{library.prefix}_error").restype = ctypes.c_char_p
    for name, (result, arguments) in library.functions.items():
        function = getattr(loaded, f"{library.prefix}_{name}")
        function.restype, function.argtypes = result, arguments
    return loaded


def last_error(library: Library) -> str:
    """Returns the message of this thread's last call that failed."""
    message: bytes = getattr(load(library), f"{library.prefix}_error")()
    return message.decode("utf-8", "replace")


def name_of(code: int) -> str:
    """Returns gRPC's name of a code that a function returned."""
    return _CODES[code] if 0 <= code < len(_CODES) else "UNKNOWN"


def code_of(name: str) -> int:
    """Returns the code of gRPC's name."""
    return _CODES.index(name)


_raised = threading.local()


def keep_raised(error: BaseException) -> None:
    """Keeps what a callback raised until the library's function, which called it in this thread, has returned.

    ctypes would print it and go on, as if no Control-C had come.
    """
    _raised.error = error


def raise_kept() -> None:
    """Raises what a callback raised during the last call of this thread, if one did."""
    error: BaseException | None = _raised.__dict__.pop("error", None)
    if error is not None:
        raise error
