"""The errors that the client raises. Each says what failed and what to do next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Error(Exception):
    """A call that failed.

    Attributes:
        code: gRPC's name of what went wrong, such as FAILED_PRECONDITION.
        message: what failed, expected and actual values, and what to do next.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    def __reduce__(self) -> tuple[Callable[..., Error], tuple[object, ...]]:
        # Kinds of errors take other arguments than `args`, with which a pickled error would be made anew.
        return _revived, (type(self), self.args, self.__dict__)


class InvalidArgument(Error, ValueError):
    """A value is wrong; the message names it, and what would be right."""

    def __init__(self, message: str) -> None:
        super().__init__("INVALID_ARGUMENT", message)


class NotFound(Error, LookupError):
    """There is no such job, checkpoint or file."""

    def __init__(self, message: str) -> None:
        super().__init__("NOT_FOUND", message)


class Unreachable(Error, ConnectionError):
    """No coordinator answers, or none is known."""

    def __init__(self, message: str) -> None:
        super().__init__("UNAVAILABLE", message)


class JobFailed(Error):
    """A job that was waited for failed.

    Attributes:
        job_id: the job's id.
        slot: the slot whose task ended the job; None if no single one did.
        log_lines: the last lines that the slot's tasks wrote, or all tasks if `slot` is None.
    """

    def __init__(self, job_id: str, message: str, slot: int | None, log_lines: list[str]) -> None:
        text = f"job {job_id} failed: {message}"
        if log_lines:
            whose = "the job's tasks" if slot is None else f"slot {slot}"
            text += "\n".join([f"\nlast lines of {whose}:", *(f"  {line}" for line in log_lines)])
        super().__init__("JOB_FAILED", text)
        self.job_id = job_id
        self.slot = slot
        self.log_lines = log_lines


class JobCancelled(Error):
    """A job that was waited for was cancelled.

    Attributes:
        job_id: the job's id.
    """

    def __init__(self, job_id: str, message: str) -> None:
        super().__init__("JOB_CANCELLED", f"job {job_id} was cancelled" + (f": {message}" if message else ""))
        self.job_id = job_id


class CollectiveError(Error, RuntimeError):
    """A collective call failed on all ranks; the message names rank and call, and what the others were doing."""


class NotFinite(Error, ArithmeticError):
    """A gradient is not finite; the message names it. Nothing of its step was sent."""

    def __init__(self, message: str) -> None:
        super().__init__("OUT_OF_RANGE", message)


def _revived(kind: type[Error], arguments: tuple[object, ...], attributes: dict[str, Any]) -> Error:
    """Returns an error that was pickled, in another process for example."""
    error = kind.__new__(kind, *arguments)
    # Not the kind's own, which takes other arguments.
    Exception.__init__(error, *arguments)
    error.__dict__.update(attributes)
    return error


def error_of(code: str, message: str) -> Error:
    """Returns the error for a status that a coordinator or a task answered."""
    if code == "INVALID_ARGUMENT":
        return InvalidArgument(message)
    if code == "NOT_FOUND":
        return NotFound(message)
    return Error(code, message)
