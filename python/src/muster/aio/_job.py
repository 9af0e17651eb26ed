"""A job of a cluster."""

from __future__ import annotations

import os
import time
from asyncio import sleep
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from muster import _calls
from muster._draft import JobDraft
from muster.aio._checkpoint import Checkpoint
from muster.aio._weights import Weights
from muster.errors import Error, JobCancelled, JobFailed, NotFound, Unreachable
from muster.history import Evaluation, Evaluations, History
from muster.v1 import job_service_pb2, status_pb2

if TYPE_CHECKING:
    from muster.aio._client import Client

_ENDED = (status_pb2.SUCCEEDED, status_pb2.FAILED, status_pb2.CANCELLED)
# Lines of log that the error about a failed job holds.
_ERROR_LINES = 20
_LATE_LINES_SECONDS = 2.0


class Job(Weights):
    """A job of a cluster, which was submitted. Every method may raise NotFound: the job was deleted.

    What is done with weights is done with those of its last checkpoint.

    Jobs are equal if they have one id and one cluster. A job can be pickled; what comes out connects by itself.

    Attributes:
        id: the job's id.
        last_status: what this object learnt last of the job, without another call; None: nothing yet. Of a job that
            `Client.jobs` listed it has name, owner, namespace, labels and description of the spec, and the last evaluation.
    """

    def __init__(self, client: Client, job_id: str, last_status: status_pb2.JobStatus | None = None) -> None:
        self._client = client
        self._stub = client._stub
        self.id = job_id
        self.last_status = last_status

    def __repr__(self) -> str:
        known = "" if self.last_status is None else _calls.said_of(self.last_status)
        return f"<Job {self.id}{known} at {self._client.address}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and (self.id, self._client.address) == (other.id, other._client.address)

    def __hash__(self) -> int:
        return hash((self.id, self._client.address))

    def __reduce__(self) -> tuple[Callable[..., Job], tuple[Client, str, status_pb2.JobStatus | None]]:
        return Job, (self._client, self.id, self.last_status)

    @staticmethod
    def from_file(path: str | os.PathLike[str]) -> JobDraft:
        """Reads a job that is still to be submitted; see JobDraft.from_file."""
        return JobDraft.from_file(path)

    @staticmethod
    def from_fields(fields: Mapping[str, object]) -> JobDraft:
        """Makes a job that is still to be submitted; see JobDraft.from_fields."""
        return JobDraft.from_fields(fields)

    @property
    def name(self) -> str:
        """The job's name as far as `last_status` has it; "" without one."""
        return "" if self.last_status is None else self.last_status.spec.name

    async def status(self) -> status_pb2.JobStatus:
        """Returns all that is known of the job (proto/status.proto)."""
        reply: status_pb2.JobStatus = await self._client._call(self._stub.GetJob, self._named())
        self.last_status = reply
        return reply

    async def state(self) -> str:
        """Returns the job's state, such as RUNNING."""
        return str(status_pb2.JobState.Name((await self.status()).state))

    async def watch(self) -> AsyncIterator[status_pb2.JobStatus]:
        """Yields the job's status at each change, about 4 a second at most, until the job has ended."""
        state = status_pb2.JOB_STATE_UNSPECIFIED
        while state not in _ENDED:
            async for status in self._client._stream(self._stub.WatchJob, self._named):
                state = status.state
                self.last_status = status
                yield status

    async def wait(self, timeout: float | None = None) -> status_pb2.JobStatus:
        """Blocks until the job has succeeded, and returns its last status.

        Args:
            timeout: most seconds to wait.

        Raises:
            JobFailed: the job failed; the error has slot and last log lines.
            JobCancelled: the job was cancelled.
            TimeoutError: the job has not ended in time.
        """
        until = None if timeout is None else time.monotonic() + timeout
        status = status_pb2.JobStatus()
        while status.state not in _ENDED:
            try:
                async for status in self._client._stream(self._stub.WatchJob, self._named, until):
                    self.last_status = status
            except TimeoutError:
                heard = "nothing was heard of it"
                if status.state != status_pb2.JOB_STATE_UNSPECIFIED:
                    heard = f"{status_pb2.JobState.Name(status.state)}, step {status.progress.step}"
                raise TimeoutError(f"job {self.id} has not ended after {timeout} s: {heard}") from None
        if status.state == status_pb2.CANCELLED:
            raise JobCancelled(self.id, status.message)
        if status.state == status_pb2.FAILED:
            slot = _calls.slot_in(status.message)
            raise JobFailed(self.id, status.message, slot, await self._last_lines(slot))
        return status

    async def logs(
        self, *, follow: bool = False, slot: int | None = None, tail: int | None = None, since: float = 0.0
    ) -> AsyncIterator[str]:
        """Yields parts of what the job's tasks wrote, which may begin and end within a line.

        Args:
            follow: goes on until the job ends.
            slot: only what tasks of this slot wrote.
            tail: begins with this many lines from the end.
            since: begins with what the coordinator got in the last so many seconds; 0: with all that it keeps.
        """
        request = job_service_pb2.ReadLogsRequest(
            job_id=self.id, follow=follow, slot=slot, tail_lines=tail, since_ms=round(1000 * since)
        )
        async for chunk in self._client._stream(self._stub.ReadLogs, lambda: request):
            if chunk.missing_bytes:
                whose = "" if slot is None else ", of this slot or others"
                yield f"[{chunk.missing_bytes} bytes of older log were dropped{whose}]\n"
            # The text after this is wanted, however long ago the first call was.
            request.offset = chunk.next_offset
            request.ClearField("since_ms")
            request.ClearField("tail_lines")
            yield chunk.text

    async def metrics(self, *series: str, from_step: int = 0, max_points: int = 0) -> History:
        """Returns the job's history as it is now.

        Args:
            series: patterns of names, in which `*` matches any characters or none, and `?` any one; none: all series.
            from_step: leaves out points that end before this step.
            max_points: of each series, at least 2; neighbours are joined for that. 0: as many as there are.
        """
        history = History()
        async for history in self._histories(series, from_step, max_points, False):
            pass
        return history

    async def follow_metrics(
        self, *series: str, from_step: int = 0, max_points: int = 0
    ) -> AsyncIterator[History]:
        """Yields the job's history, and again at most once a second when there is more, until the job has ended.

        Arguments are those of `metrics`. The same object is yielded each time.
        """
        async for history in self._histories(series, from_step, max_points, True):
            yield history

    async def events(self) -> list[status_pb2.JobEvent]:
        """Returns what happened to the job, in order."""
        reply: job_service_pb2.ListEventsReply = await self._client._call(self._stub.ListEvents, self._named())
        return list(reply.events)

    async def evaluations(self) -> Evaluations:
        """Returns the job's evaluations so far, the oldest first."""
        return Evaluations(map(Evaluation.of, (await self.status()).evaluations))

    async def describe(self, text: str) -> status_pb2.JobStatus:
        """Replaces the job's description, also after the job has ended.

        Args:
            text: of at most 4,096 bytes; empty removes the description.

        Raises:
            InvalidArgument: the text is longer.
        """
        request = job_service_pb2.DescribeJobRequest(job_id=self.id, description=text)
        reply: status_pb2.JobStatus = await self._client._call(self._stub.DescribeJob, request)
        self.last_status = reply
        return reply

    async def cancel(self, reason: str = "") -> status_pb2.JobStatus:
        """Ends the job, which keeps its last checkpoint. A job that was cancelled before stays so.

        Raises:
            Error: with the code FAILED_PRECONDITION, the job has already ended in another way.
            Unreachable: no coordinator answers; the job goes on.
        """
        request = job_service_pb2.CancelJobRequest(job_id=self.id, reason=reason)
        try:
            reply: status_pb2.JobStatus = await self._client._call(self._stub.CancelJob, request)
        except Unreachable as error:
            raise Unreachable(
                f"{error}; as far as is known job {self.id} goes on, since its tasks need no coordinator: "
                "cancel it again when one answers"
            ) from None
        self.last_status = reply
        return reply

    async def delete(self) -> None:
        """Removes the ended job with its checkpoints, logs and history.

        Raises:
            Error: with the code FAILED_PRECONDITION, the job still runs, or another job starts from it.
        """
        # Changes nothing: if the deletion then says that there is no such job, an earlier attempt of it, without an answer,
        # deleted the job.
        await self.status()
        try:
            await self._client._call(self._stub.DeleteJob, self._named())
        except NotFound:
            pass

    async def checkpoints(self) -> list[Checkpoint]:
        """Returns the job's checkpoints, the oldest first."""
        reply: job_service_pb2.ListCheckpointsReply = await self._client._call(self._stub.ListCheckpoints, self._named())
        return [Checkpoint(self, each) for each in reply.checkpoints]

    async def last_checkpoint(self) -> Checkpoint:
        """Returns the job's newest checkpoint.

        Raises:
            NotFound: there is none yet.
        """
        found = await self.checkpoints()
        if not found:
            raise NotFound(f"job {self.id} has no checkpoint yet")
        return found[-1]

    async def best_checkpoint(self) -> Checkpoint:
        """Returns the checkpoint of the job's best evaluation, JOB@best.

        Raises:
            NotFound: there is none, since no evaluated weights are kept (`checkpoint.keep_best`).
        """
        for each in await self.checkpoints():
            if each.best:
                return each
        raise NotFound(f"job {self.id} has no checkpoint whose weights were evaluated, or keeps no best one")

    async def _checkpoint(self) -> Checkpoint:
        return await self.last_checkpoint()

    def _named(self) -> job_service_pb2.GetJobRequest:
        return job_service_pb2.GetJobRequest(job_id=self.id)

    async def _histories(
        self, series: Sequence[str], from_step: int, max_points: int, follow: bool
    ) -> AsyncIterator[History]:
        """Yields the history after each message of the stream."""
        history = History()

        def request() -> job_service_pb2.ReadMetricsRequest:
            # A new stream begins with all that is there.
            history._clear()
            return job_service_pb2.ReadMetricsRequest(
                job_id=self.id, series=series, from_step=from_step, max_points=max_points, follow=follow
            )

        async for chunk in self._client._stream(self._stub.ReadMetrics, request):
            history._add(chunk)
            yield history

    async def _last_lines(self, slot: int | None) -> list[str]:
        """Returns the last lines of a log for an error; none if there are none or they cannot be read."""
        # The last text of a task that has failed comes a moment after the job's end.
        until = time.monotonic() + _LATE_LINES_SECONDS
        lines: list[str] = []
        try:
            while not lines and time.monotonic() < until:
                lines = "".join([text async for text in self.logs(slot=slot, tail=_ERROR_LINES)]).splitlines()
                if not lines:
                    await sleep(_LATE_LINES_SECONDS / 20)
        except Error:
            pass
        return lines
