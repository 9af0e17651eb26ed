"""Tells the task of a job the last collective calls of this process, for `muster status JOB --collectives`."""

from __future__ import annotations

import contextlib
import threading
import weakref
from typing import Any

from muster import _native, program
from muster.errors import Error

# As many as a report may have, and bytes of an error in it.
_MOST_CALLS = 1000
_MOST_ERROR_BYTES = 1000

_lock = threading.Lock()
# Names of the groups whose calls are told.
_groups: weakref.WeakKeyDictionary[_native.Group, str] = weakref.WeakKeyDictionary()
_server: threading.Thread | None = None


def add(group: _native.Group, name: str) -> None:
    """Has the calls of a group told whenever a user asks. Does nothing outside of a job."""
    global _server
    if not program.in_job():
        return
    with _lock:
        _groups[group] = name
        if _server is None:
            _server = threading.Thread(target=_serve, name="muster-collectives", daemon=True)
            _server.start()


def tell() -> None:
    """Tells the last calls of all groups. Does nothing outside of a job, and nothing if the task is ending."""
    if not program.in_job():
        return
    with _lock:
        groups = list(_groups.items())
    calls = [(call, name) for group, name in groups for call in group.recorded_calls()]
    calls.sort(key=lambda each: each[0].started_unix_us)
    with contextlib.suppress(Error):
        program.call("report_collectives", calls=[_told(*each) for each in calls[-_MOST_CALLS:]])


def _serve() -> None:
    """Answers all questions until the task ends."""
    with contextlib.suppress(Error):
        while True:
            program.call("await_collectives_wanted")
            tell()


def _told(call: _native.RecordedCall, group: str) -> dict[str, Any]:
    return {
        "group": group,
        "sequence": call.sequence,
        "operation": call.operation,
        "dtype": call.dtype,
        "reduction": call.reduction,
        "count": call.count,
        "started_unix_us": call.started_unix_us,
        "duration_us": call.duration_us,
        "error": call.error.encode()[:_MOST_ERROR_BYTES].decode(errors="ignore"),
    }
