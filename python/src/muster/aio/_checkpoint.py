"""A checkpoint of a job."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import grpc

from muster import _calls
from muster._tensors import Library, TensorReader
from muster.aio._weights import Weights
from muster.v1 import job_service_pb2

if TYPE_CHECKING:
    from muster.aio._job import Job

# Some TiB from a disk.
_VERIFY_SECONDS = 7200.0


class Checkpoint(Weights):
    """A committed checkpoint of a job.

    Attributes:
        clock: the number of steps that the job had made.
        uri: its folder, as servers see it.
        bytes: of its own files.
        time: when it was made, in seconds since 1970.
        damage: why it cannot be read; empty: its manifest is sound.
        best: whether it is the one of the job's best evaluation, so far, JOB@best.
    """

    def __init__(self, job: Job, status: job_service_pb2.CheckpointStatus) -> None:
        self._job = job
        self._status = status
        self._client = job._client
        self._stub = job._stub
        self.job_id = job.id
        self.clock: int = status.clock
        self.uri: str = status.uri
        self.bytes: int = status.bytes
        self.time: float = status.created_unix_ms / 1000
        self.damage: str = status.damage
        self.best: bool = status.best

    def __repr__(self) -> str:
        return f"<Checkpoint {self._name()}>"

    def __reduce__(self) -> tuple[Callable[..., Checkpoint], tuple[Job, job_service_pb2.CheckpointStatus]]:
        return Checkpoint, (self._job, self._status)

    async def tensors(self, library: Library = "numpy") -> dict[str, Any]:
        """Returns the checkpoint's weights by name, as arrays of numpy or tensors of torch, which may be written to.

        A sparse table T is two of them: "T.keys", 64-bit keys, and "T.rows", a row for each key. torch has no unsigned 64-bit
        type, and has keys as signed ones. There is no optimizer state. Not repeated after an interruption.

        Raises:
            ImportError: the library is not installed.
            Error: with the code DATA_LOSS, a file of the checkpoint is damaged.
        """
        reader = TensorReader(library)
        async for part in self._parts():
            reader.add(part)
        return reader.finish()

    async def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the weights into a file in the safetensors format, in place of one that is there. Needs no program."""
        partial = f"{os.fspath(path)}.partial"
        try:
            with open(partial, "wb") as file:
                async for part in self._parts():
                    file.write(part)
            os.replace(partial, path)
        except BaseException:
            if os.path.exists(partial):
                os.remove(partial)
            raise

    async def verify(self) -> list[str]:
        """Reads all files of the checkpoint and returns one line for each that is damaged."""
        reply: job_service_pb2.VerifyCheckpointReply = await self._client._call(
            self._stub.VerifyCheckpoint, self._named(), _VERIFY_SECONDS
        )
        return list(reply.damage)

    async def _checkpoint(self) -> Checkpoint:
        return self

    def _name(self) -> str:
        return f"{self.job_id}@{self.clock}"

    def _named(self) -> job_service_pb2.CheckpointRequest:
        return job_service_pb2.CheckpointRequest(job_id=self.job_id, clock=self.clock)

    async def _parts(self) -> AsyncIterator[bytes]:
        """Yields the parts of the checkpoint's safetensors file."""
        call = self._stub.ExportJob(self._named())
        try:
            async for chunk in call:
                yield chunk.data
        except grpc.RpcError as error:
            raise _calls.error_from(error, self._client.address) from None
        finally:
            call.cancel()
