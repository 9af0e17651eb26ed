"""What both clients need for calls: options of channels, patience, errors."""

from __future__ import annotations

import os
import pwd
import random
import re
import time

import grpc

from muster.errors import Error, Unreachable, error_of
from muster.v1 import status_pb2

# Seconds for one call, and for all attempts of one while the coordinator cannot be reached, for it may be restarting.
CALL_SECONDS = 20.0
UNREACHABLE_SECONDS = 4.0
_FIRST_WAIT_SECONDS = 0.05
_LONGEST_WAIT_SECONDS = 2.0
_MOST_MESSAGE_BYTES = 64 << 20

# As in common/rpc/channel.cc, which says why.
CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", _MOST_MESSAGE_BYTES),
    ("grpc.max_send_message_length", _MOST_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 10000),
    ("grpc.keepalive_timeout_ms", 10000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 5000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.dns_min_time_between_resolutions_ms", 100),
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
]


class Patience:
    """The waits between the attempts of one call while the coordinator cannot be reached."""

    def __init__(self) -> None:
        self._until = time.monotonic() + UNREACHABLE_SECONDS
        self._wait = _FIRST_WAIT_SECONDS

    def next_wait(self) -> float | None:
        """Returns how many seconds to wait before the next attempt; None if it is time to give up."""
        wait = self._wait * random.uniform(0.5, 1.0)
        self._wait = min(2 * self._wait, _LONGEST_WAIT_SECONDS)
        return wait if time.monotonic() + wait < self._until else None


def is_unreachable(error: grpc.RpcError) -> bool:
    """Returns True if the coordinator may not have got the call, so that one that is safe to repeat is repeated."""
    return bool(error.code() is grpc.StatusCode.UNAVAILABLE)


def error_from(error: grpc.RpcError, address: str) -> Error:
    """Returns the error that a call ended with."""
    code, details = error.code(), error.details() or ""
    if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
        return Unreachable(
            f"no coordinator answers at {address} ({details}); start one with `muster up`, or name another: "
            'muster.connect("HOST:PORT")'
        )
    return error_of(code.name, details)


def user_name() -> str:
    """Returns the name of the user who runs this process; "" if the machine does not know it."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return ""


def said_of(status: status_pb2.JobStatus) -> str:
    """Returns a job's name, state and step for people, such as ` "text" RUNNING, step 272 of 626,`."""
    name = f' "{status.spec.name}"' if status.spec.name else ""
    step, total = status.progress.step, status.progress.total_steps
    steps = f", step {step}" + (f" of {total}" if total else "")
    return f"{name} {status_pb2.JobState.Name(status.state)}{steps},"


def slot_in(message: str) -> int | None:
    """Returns the slot that ended a job, by the job's last message; None if the message names none."""
    found = re.search(r"^slot (\d+)\b|: slot (\d+) (?:on worker|lost)\b", message)
    return None if found is None else int(found[1] or found[2])
