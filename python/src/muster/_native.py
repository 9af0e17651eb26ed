"""Muster's collectives through the C functions of libmuster_native.so (worker/c_abi/muster_native.h).

ctypes gives up the interpreter's lock during each call, so that other threads run while one waits. Memory is named by its
address and not copied.
"""

from __future__ import annotations

import ctypes
import dataclasses
import enum
import functools
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from muster import _native_library
from muster.errors import CollectiveError, InvalidArgument


class Kind(enum.IntEnum):
    """The values of Collective (worker/collectives/collective_call.h)."""

    ALL_REDUCE = 0
    REDUCE_SCATTER = 1
    ALL_GATHER = 2
    BROADCAST = 3
    REDUCE = 4
    ALL_TO_ALL = 5
    SEND = 6
    RECEIVE = 7
    BARRIER = 8


class DType(enum.IntEnum):
    """The values of DType (common/tensor/dtype.h)."""

    F32 = 0
    F64 = 1
    F16 = 2
    BF16 = 3
    INT32 = 4
    INT64 = 5
    UINT8 = 6


class Reduction(enum.IntEnum):
    """The values of Reduction."""

    SUM = 0
    AVG = 1
    MIN = 2
    MAX = 3
    PROD = 4
    BAND = 5
    BOR = 6
    BXOR = 7


# The root of a receive from whichever rank sends first.
ANY_RANK = -1


@dataclasses.dataclass(frozen=True)
class EndpointOptions:
    """HostEndpointOptions (worker/collectives/endpoint.h)."""

    host: str = "127.0.0.1"
    first_port: int = 0
    last_port: int = 0
    advertised_host: str = ""
    shared_memory: bool = True
    tls: bool = False
    connections: int = 1


@dataclasses.dataclass(frozen=True)
class RecordedCall:
    """One call as this rank saw it.

    Attributes:
        sequence: its number among this rank's calls in the group, from 1.
        duration_us: None: it has not ended.
        error: "": it has not failed.
    """

    sequence: int
    operation: str
    dtype: str
    reduction: str
    count: int
    started_unix_us: int
    duration_us: int | None
    error: str


class _EndpointOptions(ctypes.Structure):
    _fields_ = [
        ("host", ctypes.c_char_p),
        ("advertised_host", ctypes.c_char_p),
        ("first_port", ctypes.c_uint16),
        ("last_port", ctypes.c_uint16),
        ("shared_memory", ctypes.c_int32),
        ("tls", ctypes.c_int32),
        ("connections", ctypes.c_int32),
    ]


class _RecordedCall(ctypes.Structure):
    _fields_ = [
        ("sequence", ctypes.c_uint64),
        ("operation", ctypes.c_char_p),
        ("dtype", ctypes.c_char_p),
        ("reduction", ctypes.c_char_p),
        ("count", ctypes.c_uint64),
        ("started_unix_us", ctypes.c_int64),
        ("duration_us", ctypes.c_int64),
        ("error", ctypes.c_char_p),
    ]


_TakeCall = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(_RecordedCall))


class _Meeting(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("round", ctypes.c_uint64),
        ("secret", ctypes.c_char_p),
        ("secret_size", ctypes.c_size_t),
        ("addresses", ctypes.POINTER(ctypes.c_char_p)),
        ("address_sizes", ctypes.POINTER(ctypes.c_size_t)),
        ("rank", ctypes.c_int32),
        ("size", ctypes.c_int32),
        ("timeout_seconds", ctypes.c_double),
    ]


class Call(ctypes.Structure):
    """One collective call, as muster_call describes it."""

    _fields_ = [
        ("kind", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
        ("reduction", ctypes.c_int32),
        ("root", ctypes.c_int32),
        ("input", ctypes.c_void_p),
        ("output", ctypes.c_void_p),
        ("count", ctypes.c_size_t),
        ("counts", ctypes.POINTER(ctypes.c_size_t)),
        ("send_counts", ctypes.POINTER(ctypes.c_size_t)),
        ("timeout_seconds", ctypes.c_double),
        ("tag", ctypes.c_int32),
    ]


def sizes(values: Sequence[int]) -> ctypes.Array[ctypes.c_size_t]:
    """Returns an array for the counts of a Call, which must live until the call was started."""
    return (ctypes.c_size_t * len(values))(*values)


_OBJECT, _OUT = ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)
_LIBRARY = _native_library.Library(
    purpose="Muster's collectives",
    file="libmuster_native.so",
    variable="MUSTER_NATIVE_LIBRARY",
    prefix="muster",
    abi_version=3,
    functions={
        "endpoint_make": (ctypes.c_int, [ctypes.POINTER(_EndpointOptions), _OUT]),
        "endpoint_address": (ctypes.c_void_p, [_OBJECT, ctypes.POINTER(ctypes.c_size_t)]),
        "endpoint_free": (None, [_OBJECT]),
        "connect": (ctypes.c_int, [_OBJECT, ctypes.POINTER(_Meeting), _OUT]),
        "start": (ctypes.c_int, [_OBJECT, ctypes.POINTER(Call), _OUT]),
        "wait": (ctypes.c_int, [_OBJECT]),
        "ended": (ctypes.c_int, [_OBJECT]),
        "source": (ctypes.c_int, [_OBJECT]),
        "work_free": (None, [_OBJECT]),
        "recorded_calls": (None, [_OBJECT, _TakeCall, ctypes.c_void_p]),
        "abort": (None, [_OBJECT, ctypes.c_char_p]),
        "group_free": (None, [_OBJECT]),
    },
)
# Returns the library's functions. Errors are those of load().
library = functools.partial(_native_library.load, _LIBRARY)


def _check(code: int) -> None:
    """Raises the error of the last call if it failed."""
    if code == 0:
        return
    message = _native_library.last_error(_LIBRARY)
    name = _native_library.name_of(code)
    raise InvalidArgument(message) if name == "INVALID_ARGUMENT" else CollectiveError(name, message)


# This process. Kept, as os.getpid() is a system call, whose time small collective calls would show.
_process = os.getpid()


def _note_fork() -> None:
    global _process
    _process = os.getpid()


os.register_at_fork(after_in_child=_note_fork)


def _free_with(owner: object, free: Callable[[ctypes.c_void_p], None], handle: ctypes.c_void_p, outer: object) -> Any:
    """Frees a handle when its owner ends, and never at exit, where threads may be using it. `outer` lives until then.

    A process that was forked frees nothing of its parent's, whose threads it does not have.
    """
    process = _process

    def end(_: object) -> None:
        if _process == process:
            free(handle)

    finalizer = weakref.finalize(owner, end, outer)
    finalizer.atexit = False
    return finalizer


def _recorded(call: _RecordedCall) -> RecordedCall:
    return RecordedCall(
        sequence=call.sequence,
        operation=call.operation.decode(),
        dtype=call.dtype.decode(),
        reduction=call.reduction.decode(),
        count=call.count,
        started_unix_us=call.started_unix_us,
        duration_us=None if call.duration_us < 0 else call.duration_us,
        error=call.error.decode("utf-8", "replace"),
    )


class Work:
    """A call that was started. Its memory must live until it has ended."""

    def __init__(self, group: Group, handle: ctypes.c_void_p) -> None:
        self._handle = handle
        self._group = group
        _free_with(self, library().muster_work_free, handle, group)

    def wait(self) -> None:
        """Blocks until the call has ended. Raises CollectiveError if it failed."""
        self._group.check_process()
        _check(library().muster_wait(self._handle))

    def ended(self) -> bool:
        """Returns True if the call has ended."""
        return bool(library().muster_ended(self._handle))

    def source(self) -> int:
        """Returns the rank that sent what this call has received. REQUIRES: a receive that has ended well."""
        return int(library().muster_source(self._handle))


class Group:
    """A rank's place in a group of ranks."""

    def __init__(self, endpoint: Endpoint, handle: ctypes.c_void_p) -> None:
        self._handle = handle
        # Held while the handle is used, except by works, so that the group is not left meanwhile. A signal handler may come
        # while its own thread holds it.
        self._lock = threading.RLock()
        self._process = _process
        # The group needs its endpoint.
        self._free = _free_with(self, library().muster_group_free, handle, endpoint)

    def start(self, call: Call) -> Work:
        """Queues a call behind earlier ones and returns.

        Raises:
            InvalidArgument: the call is wrong in itself.
            CollectiveError: this rank has left the group.
        """
        self.check_process()
        work = ctypes.c_void_p()
        with self._lock:
            if not self._free.alive:
                raise CollectiveError("UNAVAILABLE", "this rank has left the group")
            _check(library().muster_start(self._handle, ctypes.byref(call), ctypes.byref(work)))
        return Work(self, work)

    def is_forked(self) -> bool:
        """Returns True in a process that was forked from the group's rank, which is no rank itself."""
        return _process != self._process

    def check_process(self) -> None:
        """Raises CollectiveError in a process that was forked from the group's rank."""
        if self.is_forked():
            raise CollectiveError(
                "FAILED_PRECONDITION",
                f"process {_process} was forked from process {self._process}, which alone is a rank of the group; fork "
                "before the group is made, or leave its calls to that process",
            )

    def recorded_calls(self) -> list[RecordedCall]:
        """Returns the last calls, at most 1,000, oldest first; none once this rank has left."""
        calls: list[RecordedCall] = []

        def take(_: object, recorded: Any) -> None:
            try:
                calls.append(_recorded(recorded.contents))
            except BaseException as error:
                _native_library.keep_raised(error)

        with self._lock:
            if self._free.alive:
                library().muster_recorded_calls(self._handle, _TakeCall(take), None)
        _native_library.raise_kept()
        return calls

    def abort(self, reason: str) -> None:
        """Ends all calls on all ranks with this reason. Does nothing once this rank has left."""
        self.check_process()
        with self._lock:
            if self._free.alive:
                library().muster_abort(self._handle, reason.encode())

    def leave(self) -> None:
        """Leaves the group; calls under way end with an error on all ranks."""
        with self._lock:
            self._free()


class Endpoint:
    """The place where this process waits for the other ranks before it knows who they are."""

    def __init__(self, options: EndpointOptions) -> None:
        self._handle = ctypes.c_void_p()
        given = _EndpointOptions(
            host=options.host.encode(),
            advertised_host=options.advertised_host.encode(),
            first_port=options.first_port,
            last_port=options.last_port,
            shared_memory=options.shared_memory,
            tls=options.tls,
            connections=options.connections,
        )
        _check(library().muster_endpoint_make(ctypes.byref(given), ctypes.byref(self._handle)))
        _free_with(self, library().muster_endpoint_free, self._handle, None)

    def address(self) -> bytes:
        """Returns bytes by which others reach this process."""
        size = ctypes.c_size_t()
        data = library().muster_endpoint_address(self._handle, ctypes.byref(size))
        return ctypes.string_at(data, size.value)

    def connect(
        self, name: str, round_number: int, secret: bytes, addresses: Sequence[bytes], rank: int, timeout: float
    ) -> Group:
        """Connects this rank to the others, whose addresses are given by rank; blocks until all have come.

        Args:
            round_number: the same on all ranks, and never used for two groups.
            secret: known to the members alone.
        """
        count = len(addresses)
        meeting = _Meeting(
            name=name.encode(),
            round=round_number,
            secret=secret,
            secret_size=len(secret),
            addresses=(ctypes.c_char_p * count)(*addresses),
            address_sizes=sizes([len(each) for each in addresses]),
            rank=rank,
            size=count,
            timeout_seconds=timeout,
        )
        group = ctypes.c_void_p()
        _check(library().muster_connect(self._handle, ctypes.byref(meeting), ctypes.byref(group)))
        return Group(self, group)
