"""What a program that runs as a job says to its task, and asks it (docs/programs.md).

The task listens on the Unix socket that the environment variable MUSTER_TASK names. In a program that runs by hand the
variable is not set: then `report` does nothing, checkpoints go into a folder of the working directory, and there is nothing to
resume from, so that the same program runs in both ways.

Threads and signal handlers may call all functions, whatever other calls are under way: a handler of SIGTERM may save.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import operator
import os
import pathlib
import socket
from collections.abc import Iterator, Mapping
from typing import Any, SupportsFloat

from muster.errors import Error, error_of

# Where a program that runs by hand writes checkpoints: a folder for each step.
_FOLDER_BY_HAND = "muster-checkpoints"
_MOST_ANSWER_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class Resumed:
    """The checkpoint that this run goes on from.

    Attributes:
        folder: its files, of all ranks, to be read only.
        step: the number of steps that were done when it was made.
    """

    folder: pathlib.Path
    step: int


def in_job() -> bool:
    """Returns True if this process runs as a job of Muster."""
    return bool(os.environ.get("MUSTER_TASK"))


def report(
    step: int,
    *,
    examples: int = 0,
    evaluation: Mapping[str, SupportsFloat] | None = None,
    **metrics: SupportsFloat,
) -> None:
    """Reports figures of this rank, such as `muster.report(step, loss=0.31)`. Never waits for the network.

    Args:
        step: number of steps done so far; never less than this process reported before.
        examples: number of examples that this process trained on since its last report, for the job's speed.
        evaluation: results on held-out data at this step. `loss` is their loss; each other name is a metric.
        metrics: `loss` is the job's training loss; each other NAME becomes the series train/NAME of its history. Values
            that are not finite stay out of it. A tensor with one element is a number, too.

    What cannot be taken is left out, and the job's log says so: a step that goes back, a name that is not one of a series, and
    metrics beyond the first 256 besides losses.
    """
    if not in_job():
        return
    # Also a whole number of numpy, which JSON does not know.
    fields: dict[str, Any] = {"step": operator.index(step), "metrics": _numbers(metrics)}
    if examples:
        fields["examples"] = operator.index(examples)
    if evaluation:
        fields["evaluation"] = _numbers(evaluation)
    call("report", **fields)


@contextlib.contextmanager
def checkpoint(step: int, *, whole: bool = False) -> Iterator[pathlib.Path]:
    """Makes a checkpoint of the files that are written into the folder that this gives, in `with`.

    The end of the block blocks until the coordinator has committed the checkpoint. If the block raises, there is none.

    Args:
        step: number of steps done so far, the same on all ranks.
        whole: False: the checkpoint is the files of all ranks, so every rank must make it, under names of its own. True: this
            process's files are all of it, and nobody is waited for, as for `if rank == 0`.

    Raises:
        Error: with the code FAILED_PRECONDITION, the checkpoint cannot be written now; the program may go on.
        InvalidArgument: the step is not beyond the last checkpoint, two ranks wrote one file, or no rank wrote any.
    """
    step = operator.index(step)
    if not in_job():
        folder = pathlib.Path(_FOLDER_BY_HAND, str(step))
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    with begun_checkpoint(step) as begun:
        yield begun
    call("commit_checkpoint", step=step, whole=whole)


@contextlib.contextmanager
def begun_checkpoint(step: int) -> Iterator[pathlib.Path]:
    """Gives the folder of a checkpoint, which is still to be committed, and forgets it if the block raises."""
    folder = pathlib.Path(call("begin_checkpoint", step=step)["folder"])
    try:
        yield folder
    except BaseException:
        # What went wrong in the block is the error, even if the task has ended, too.
        with contextlib.suppress(Error):
            call("drop_checkpoint", step=step)
        raise


def resume() -> Resumed | None:
    """Returns the checkpoint that this run goes on from, the same on all ranks; None if it begins afresh."""
    if not in_job():
        return None
    answer = call("resume")
    return None if answer["folder"] is None else Resumed(pathlib.Path(answer["folder"]), answer["step"])


def resume_folder() -> pathlib.Path | None:
    """Returns the folder of `resume`; None if this run begins afresh."""
    resumed = resume()
    return None if resumed is None else resumed.folder


class _Connection:
    """A connection to this process's task, for one call at a time."""

    def __init__(self) -> None:
        """
        Raises:
            Error: no task answers.
        """
        self._pid = os.getpid()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # A thread of the package may call when the program has cleared the environment.
        where = os.environ.get("MUSTER_TASK", "")
        try:
            self._socket.connect(where)
        except OSError as error:
            self._socket.close()
            raise Error("UNAVAILABLE", f"no task answers at MUSTER_TASK={where}: {error.strerror}") from None
        self._answers = self._socket.makefile("rb")

    def is_mine(self) -> bool:
        """Returns False in a child process, which has to make a connection of its own."""
        return self._pid == os.getpid()

    def exchange(self, line: bytes) -> bytes:
        """Returns the line that answers a line.

        Raises:
            Error: the task has ended.
        """
        try:
            self._socket.sendall(line)
            answer = self._answers.readline(_MOST_ANSWER_BYTES)
        except OSError as error:
            raise Error("UNAVAILABLE", f"the task of this program cannot be reached ({error}); the job is ending") from None
        if not answer.endswith(b"\n"):
            raise Error("UNAVAILABLE", "the task of this program has closed the connection; the job is ending")
        return answer

    def close(self) -> None:
        self._answers.close()
        self._socket.close()


# The connection without a call under way, if there is one. Calls take it out and put it back without a lock: a signal handler
# that calls while the thread under it is in a call would wait for that lock for ever.
_idle: list[_Connection] = []


def call(name: str, **fields: Any) -> dict[str, Any]:
    """Returns the task's answer to a call. Thread-safe, and safe in signal handlers: calls at one time go over connections of
    their own.

    Raises:
        Error: the task refuses it, or has ended.
    """
    line = json.dumps({"token": os.environ.get("MUSTER_TASK_TOKEN", ""), "call": name, **fields}, allow_nan=False)
    connection = _take_idle() or _Connection()
    try:
        answered = connection.exchange(line.encode() + b"\n")
    except BaseException:
        # Answers have no ids, so the next call would take a late one for its own.
        connection.close()
        raise
    if _idle:
        connection.close()
    else:
        _idle.append(connection)
    answer: dict[str, Any] = json.loads(answered)
    if not answer["ok"]:
        raise error_of(answer["code"], answer["message"])
    return answer


def _take_idle() -> _Connection | None:
    with contextlib.suppress(IndexError):
        connection = _idle.pop()
        if connection.is_mine():
            return connection
        connection.close()
    return None


def _numbers(values: Mapping[str, SupportsFloat]) -> dict[str, float | str]:
    """Returns the values as JSON has them, which knows finite numbers only."""
    numbers: dict[str, float | str] = {}
    for name, value in values.items():
        try:
            number = float(value)
        except TypeError as error:
            message = f"{name!r} is {type(value).__name__}, and figures are numbers by name: muster.report(step, loss=0.31)"
            raise TypeError(message) from error
        if math.isfinite(number):
            numbers[name] = number
        else:
            numbers[name] = "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    return numbers
