"""Parameters on servers through the C functions of libmuster_servers.so (worker/c_abi/muster_servers.h).

ctypes gives up the interpreter's lock during each call. Memory is named by its address and not copied.
"""

from __future__ import annotations

import base64
import ctypes
import functools
import json
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from muster import _native_library, program
from muster.errors import Error, NotFinite, error_of

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_ShardMap = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_size_t)


class _Options(ctypes.Structure):
    _fields_ = [
        ("order", ctypes.c_char_p),
        ("order_size", ctypes.c_size_t),
        ("update", ctypes.c_char_p),
        ("schema", ctypes.c_char_p),
        ("begins", ctypes.c_int32),
        ("values", ctypes.POINTER(ctypes.c_void_p)),
        ("values_count", ctypes.c_size_t),
        ("tls_authority", ctypes.c_char_p),
        ("tls_certificate", ctypes.c_char_p),
        ("tls_key", ctypes.c_char_p),
        ("shard_map", _ShardMap),
    ]


_OBJECT, _OUT, _NUMBER = ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_uint64)
_LIBRARY = _native_library.Library(
    purpose="parameters on servers",
    file="libmuster_servers.so",
    variable="MUSTER_SERVERS_LIBRARY",
    prefix="muster_servers",
    abi_version=3,
    functions={
        "open": (ctypes.c_int, [ctypes.POINTER(_Options), _OUT]),
        "close": (None, [_OBJECT]),
        "clock": (ctypes.c_uint64, [_OBJECT]),
        "parameter": (ctypes.c_void_p, [_OBJECT, ctypes.c_int32]),
        "acquire": (ctypes.c_int, [_OBJECT, ctypes.c_int32]),
        "push": (ctypes.c_int, [_OBJECT, ctypes.c_int32, ctypes.c_void_p]),
        "look_up": (ctypes.c_int, [_OBJECT, ctypes.c_int32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, _NUMBER]),
        "row_gradients": (ctypes.c_int, [_OBJECT, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_int32]),
        "drop": (ctypes.c_int, [_OBJECT]),
        "step": (ctypes.c_int, [_OBJECT, ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t]),
        "cut": (ctypes.c_int, [_OBJECT, ctypes.c_double, ctypes.POINTER(ctypes.c_char_p)]),
    },
)
# Returns the library's functions. Errors are those of load().
library = functools.partial(_native_library.load, _LIBRARY)


def _check(code: int) -> None:
    """Raises what the last call's callback raised, or else its error if it failed."""
    _native_library.raise_kept()
    if code != 0:
        name, message = _native_library.name_of(code), _native_library.last_error(_LIBRARY)
        raise NotFinite(message) if name == "OUT_OF_RANGE" else error_of(name, message)


def _write_newest_map(out: int, capacity: int) -> int:
    """Writes the newest map of the job's servers, which the task knows; returns its size, or a negative code."""
    try:
        encoded = base64.b64decode(program.call("shard_map")["map"])
        if len(encoded) > capacity:
            raise ValueError(f"the map of the job's servers has {len(encoded)} bytes; expected at most {capacity}")
        ctypes.memmove(out, encoded, len(encoded))
        return len(encoded)
    except Error as error:
        # Only with these two is the wait over: servers may come back before the coordinator does.
        return -_native_library.code_of(error.code if error.code in ("ABORTED", "NOT_FOUND") else "UNAVAILABLE")
    except BaseException as error:
        _native_library.keep_raised(error)
        return -_native_library.code_of("ABORTED")


# Lives as long as the library, which calls it.
_newest_map = _ShardMap(_write_newest_map)


class Servers:
    """This process's place among the ranks of a job whose parameters are on servers (ServedParameters), until it ends."""

    def __init__(self, schema: Mapping[str, Any], update: Mapping[str, Any], values: Sequence[int]) -> None:
        """Opens the tables on the job's servers, and blocks until they are there.

        Args:
            schema: the fields of schema.proto's TablesSchema.
            update: fields of job.proto's UpdateSpec.
            values: addresses of the tensors' first values; those of rank 0 count.

        Raises:
            InvalidArgument: the schema is wrong, or not that of the other ranks.
            Error: the job has no servers, or they cannot be reached.
        """
        found = program.call("servers")
        order = base64.b64decode(found["order"])
        tls = found["tls"] or {}
        options = _Options(
            order=order,
            order_size=len(order),
            update=json.dumps(update).encode(),
            schema=json.dumps(schema).encode(),
            begins=int(found["begins"]),
            values=(ctypes.c_void_p * len(values))(*values),
            values_count=len(values),
            tls_authority=tls.get("authority", "").encode(),
            tls_certificate=tls.get("certificate", "").encode(),
            tls_key=tls.get("key", "").encode(),
            shard_map=_newest_map,
        )
        handle = ctypes.c_void_p()
        _check(library().muster_servers_open(ctypes.byref(options), ctypes.byref(handle)))
        self._open_handle = handle
        # Also at exit, before what the library's threads use ends.
        self._close = weakref.finalize(self, library().muster_servers_close, handle)

    @property
    def _handle(self) -> ctypes.c_void_p:
        if not self._close.alive:
            raise Error("UNAVAILABLE", "this process is ending, and has left its servers")
        return self._open_handle

    def clock(self) -> int:
        """Returns the number of steps that this rank has ended."""
        return int(library().muster_servers_clock(self._handle))

    def parameter(self, tensor: int) -> Any:
        """Returns a DLPack capsule of a tensor's values, whose memory lives as long as who takes it over."""
        view = library().muster_servers_parameter(self._handle, tensor)
        return _new_capsule(view, b"dltensor", None)

    def acquire(self, tensor: int) -> None:
        """Blocks until the tensor's values of this step are there."""
        _check(library().muster_servers_acquire(self._handle, tensor))

    def push(self, tensor: int, address: int) -> None:
        """Pushes a tensor's gradient ahead of the step's end."""
        _check(library().muster_servers_push(self._handle, tensor, address))

    def look_up(self, table: int, keys: int, count: int, rows: int, trains: bool) -> int:
        """Fills the memory at `rows` with rows of a table; returns a number for `row_gradients`."""
        number = ctypes.c_uint64()
        number_or_none = ctypes.byref(number) if trains else None
        _check(library().muster_servers_look_up(self._handle, table, keys, count, rows, number_or_none))
        return number.value

    def row_gradients(self, look_up: int, address: int, now: bool) -> None:
        """Takes the gradients of a look-up's rows; `now` pushes them once those of the table's other look-ups are there."""
        _check(library().muster_servers_row_gradients(self._handle, look_up, address, int(now)))

    def drop(self) -> None:
        """Forgets the step's look-ups and the gradients of their rows."""
        _check(library().muster_servers_drop(self._handle))

    def step(self, gradients: Sequence[int]) -> None:
        """Ends the step with the tensors' gradients, by address; 0: it has none. Blocks until servers have all of it.

        Raises:
            NotFinite: one is not finite; nothing was pushed.
        """
        addresses = (ctypes.c_void_p * len(gradients))(*gradients)
        _check(library().muster_servers_step(self._handle, addresses, len(gradients)))

    def cut(self, timeout: float) -> dict[str, Any]:
        """Cuts the tables between two steps; blocks until all ranks have ended as many. Returns what a task takes with a
        checkpoint.

        Raises:
            Error: with the code DEADLINE_EXCEEDED, a rank or a server takes longer than `timeout` seconds.
        """
        text = ctypes.c_char_p()
        _check(library().muster_servers_cut(self._handle, timeout, ctypes.byref(text)))
        cut: dict[str, Any] = json.loads(text.value or b"{}")
        return cut
