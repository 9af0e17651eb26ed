"""Lets a plain script have what a program in a job has: a task.

The script submits a job whose program is this file. Run as a program, it hands the script the way to its task and lasts as long
as the script does. So the job's servers, its place among other jobs and what becomes of it are those of any job.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import pathlib
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any

# What a script needs of the environment that a program has.
_VARIABLES = ("MUSTER_TASK", "MUSTER_TASK_TOKEN", "MUSTER_JOB", "MUSTER_SLOT", "RANK", "WORLD_SIZE")
_MEMORY_BYTES = 256 << 20
_WAIT_SECONDS = 60


def start(fields: Mapping[str, Any]) -> None:
    """Submits a job for this script, and sets the variables that its program has.

    Args:
        fields: of the job, beside the defaults.

    Raises:
        Error: there is no cluster, it takes no programs, or the job does not start.
    """
    # The stand-in itself, which is alone in its process, needs none of the package.
    import muster

    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise muster.InvalidArgument(
            "this script has several ranks (WORLD_SIZE), but runs by hand; submit it as a job with update.dense PARAMETER_SERVER"
        )
    folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-script-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(folder / "socket"))
    listener.listen(1)
    listener.settimeout(0.1)
    command = [sys.executable, __file__, str(folder / "socket")]
    draft = muster.Job.from_fields({
        "name": pathlib.Path(sys.argv[0] or "script").stem or "script",
        **fields,
        "model": {"program": {"command": command, "memory_bytes": _MEMORY_BYTES, "max_restarts": 0}},
        "update": {"dense": "PARAMETER_SERVER", **fields.get("update", {})},
    })
    with muster.connect() as client:
        job = client.submit(draft)
        connection = _accept(listener, job)
    listener.close()
    line = connection.makefile("rb").readline()
    os.environ.update(json.loads(line))
    _end_with_this_process(connection)


def _accept(listener: socket.socket, job: Any) -> socket.socket:
    """Returns the stand-in's connection.

    Raises:
        Error: it does not come.
    """
    import muster
    from muster.v1 import status_pb2

    until = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            connection, _ = listener.accept()
            connection.settimeout(None)
            return connection
        except TimeoutError:
            status = job.status()
            if status.state in (status_pb2.FAILED, status_pb2.CANCELLED):
                raise muster.Error("FAILED_PRECONDITION", f"job {job.id} of this script ended: {status.message}") from None
            if time.monotonic() > until:
                job.cancel("its script gave up")
                raise muster.Error(
                    "UNAVAILABLE", f"job {job.id} of this script has not started: {status.waiting_for or 'it is starting'}"
                ) from None


def _end_with_this_process(connection: socket.socket) -> None:
    """Has the job learn how this process ends. What it is told is the exit status that a shell would see."""
    libc = ctypes.CDLL(None)
    libc.fdopen.restype = ctypes.c_void_p
    libc.on_exit.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    descriptor = connection.detach()
    # At exit, after all of Python, the C library calls fputc(status, stream) and flushes the stream: whoever calls exit().
    libc.on_exit(ctypes.cast(libc.fputc, ctypes.c_void_p), libc.fdopen(descriptor, b"w"))

    def forget() -> None:
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), descriptor)

    # A child's end is not this process's.
    os.register_at_fork(after_in_child=forget)


def main(path: str) -> int:
    """Runs the stand-in; returns its exit status, which is the script's."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(path)
        connection.sendall(json.dumps({name: os.environ[name] for name in _VARIABLES}).encode() + b"\n")
        said = connection.makefile("rb").read()
    status = said[-1] if said else None
    if status != 0:
        how = "by a signal or os._exit()" if status is None else f"with status {status}"
        print(f"the script of this job has ended without saying that it was done: {how}", flush=True)
    return 1 if status is None else status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
