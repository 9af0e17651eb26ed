"""The asyncio client: the names and meanings of the package's own client, to be awaited.

    async with muster.aio.connect() as client:
        job = await client.submit(muster.Job.from_file("job.yaml"))
        async for text in job.logs(follow=True):
            print(text, end="")
        await job.wait()
"""

# generate.py makes _client.py, the client for plain code, from this file: it drops `async` and `await` and exchanges a few
# names. So whatever is awaited here has to have a twin that is not.

from __future__ import annotations

import contextlib
import os
import secrets
import time
from asyncio import sleep
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Type

import grpc
from grpc import aio as channels

from muster import _calls, _derived_jobs
from muster._cluster import Cluster, Tls, find_cluster, read_tls
from muster._draft import JobDraft, submitted_form
from muster._muster_program import run_async as run_program
from muster._tensors import Library, TensorReader
from muster.errors import Error, InvalidArgument, JobCancelled, JobFailed, NotFound, Unreachable
from muster.history import Evaluation, Evaluations, History
from muster.v1 import job_service_pb2, status_pb2
from muster.v1.job_service_pb2_grpc import JobServiceStub

_UNFINISHED = (status_pb2.PENDING, status_pb2.PLACING, status_pb2.RUNNING, status_pb2.RECOVERING)
_ENDED = (status_pb2.SUCCEEDED, status_pb2.FAILED, status_pb2.CANCELLED)
_PAGE_JOBS = 500
# Some TiB from a disk.
_VERIFY_SECONDS = 7200.0
# Lines of log that the error about a failed job holds.
_ERROR_LINES = 20
_LATE_LINES_SECONDS = 2.0


def connect(
    address: str | None = None,
    *,
    folder: str | os.PathLike[str] | None = None,
    tls: Tls | None = None,
    token_file: str | os.PathLike[str] | None = None,
) -> Client:
    """Returns a client of the cluster that the arguments name; without any, as the program `muster` finds one.

    Args:
        address: HOST:PORT of the coordinator. Without it and `folder`: the environment variable MUSTER_COORDINATOR, else the
            cluster that this user started last with `muster up`.
        folder: of a cluster that `muster up --data-dir FOLDER` started.
        tls: files for a cluster with certificates; without it those that the cluster's folder names.
        token_file: file with the token that programs as jobs need; without it the environment variable
            MUSTER_PROGRAM_TOKEN_FILE, else program.token in the cluster's folder.

    Raises:
        Unreachable: no cluster is named, or the one in the folder does not run.
        InvalidArgument: a file of `tls` cannot be read.
    """
    where, token = (None if each is None else os.fspath(each) for each in (folder, token_file))
    return Client(find_cluster(address, where, tls, token))


class Client:
    """A cluster's jobs. A context manager, which closes the connection.

    Calls are repeated for a few seconds while the coordinator cannot be reached, for it may be restarting, if the proto says
    that a repeat is safe. Every method may raise Unreachable, and Error for what the coordinator refuses.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.address = cluster.address
        if cluster.tls is None:
            self._channel: Any = channels.insecure_channel(cluster.address, options=_calls.CHANNEL_OPTIONS)
        else:
            credentials = grpc.ssl_channel_credentials(*read_tls(cluster.tls))
            self._channel = channels.secure_channel(cluster.address, credentials, options=_calls.CHANNEL_OPTIONS)
        # What protoc makes of services has no types.
        self._stub: Any = JobServiceStub(self._channel)  # type: ignore[no-untyped-call]

    def __repr__(self) -> str:
        return f"<Client of {self.address}>"

    def __reduce__(self) -> tuple[Callable[..., Client], tuple[Cluster]]:
        # Pickled, it is a client of the same cluster with a connection of its own. Files with keys and tokens are read there.
        return Client, (self._cluster,)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: Type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection; calls under way end with an error."""
        await self._channel.close()

    async def submit(self, draft: JobDraft) -> Job:
        """Submits a job, whose owner is this user unless it names one.

        Raises:
            InvalidArgument: a field is wrong; the message names it, its value and what would be right.
            NotFound: there is no such job or checkpoint to start from.
        """
        # The coordinator takes a repeat with the same id for the same job.
        request = job_service_pb2.SubmitJobRequest(
            spec=submitted_form(draft, _calls.user_name()), request_id=secrets.token_hex(8)
        )
        if request.spec.model.WhichOneof("model") == "program":
            request.program_proof = self._cluster.program_proof(request)
        reply: job_service_pb2.SubmitJobReply = await self._call(self._stub.SubmitJob, request)
        return Job(self, reply.job_id)

    async def job(self, called: str) -> Job:
        """Returns the job with this id or, if there is none, the newest with this name: one that has not ended, if any.

        Raises:
            NotFound: there is no such job.
        """
        for states in (_UNFINISHED, ()):
            request = job_service_pb2.ListJobsRequest(job=called, newest_first=True, states=states)
            found = await self._list(request, 1)
            if found and called:
                return Job(self, found[0].job_id, found[0])
        raise NotFound(f'no job has the id or the name "{called}"; `muster list` shows all jobs')

    async def jobs(
        self,
        *,
        name: str = "",
        owner: str = "",
        labels: Mapping[str, str] | None = None,
        states: Iterable[str] = (),
        limit: int | None = None,
    ) -> list[Job]:
        """Lists the jobs that match all arguments, the newest first. Their `last_status` has what the list says of them.

        Args:
            name: pattern of the whole name, in which `*` matches any characters or none, and `?` any one.
            labels: names of labels, with a pattern of their value.
            states: such as RUNNING; any of them.
            limit: at most this many.

        Raises:
            InvalidArgument: there is no such state.
        """
        known = status_pb2.JobState.keys()[1:]
        states = list(states)
        wrong = [each for each in states if each not in known]
        if wrong:
            raise InvalidArgument(f'no state is called "{wrong[0]}"; there are {", ".join(known)}')
        request = job_service_pb2.ListJobsRequest(
            name=name, owner=owner, labels=labels or {}, newest_first=True, view=job_service_pb2.ListJobsRequest.SHORT
        )
        request.states.extend(map(status_pb2.JobState.Value, states))
        return [Job(self, each.job_id, each) for each in await self._list(request, limit)]

    async def cluster(self) -> job_service_pb2.GetClusterReply:
        """Returns the daemons with their capacity, and the drains."""
        request = job_service_pb2.GetClusterRequest()
        reply: job_service_pb2.GetClusterReply = await self._call(self._stub.GetCluster, request)
        return reply

    async def _list(
        self, request: job_service_pb2.ListJobsRequest, limit: int | None
    ) -> list[status_pb2.JobStatus]:
        """Lists jobs, page by page."""
        found: list[status_pb2.JobStatus] = []
        while limit is None or len(found) < limit:
            request.page_size = _PAGE_JOBS if limit is None else min(_PAGE_JOBS, limit - len(found))
            page: job_service_pb2.ListJobsReply = await self._call(self._stub.ListJobs, request)
            found += page.jobs
            request.page_token = page.next_page_token
            if not request.page_token:
                break
        return found

    async def _call(self, rpc: Any, request: Any, timeout: float = _calls.CALL_SECONDS) -> Any:
        """Makes a call that is safe to repeat."""
        patience = _calls.Patience()
        while True:
            try:
                return await rpc(request, timeout=timeout)
            except grpc.RpcError as error:
                wait = patience.next_wait() if _calls.is_unreachable(error) else None
                if wait is None:
                    raise _calls.error_from(error, self.address) from None
            await sleep(wait)

    async def _stream(
        self, rpc: Any, request: Callable[[], Any], until: float | None = None
    ) -> AsyncIterator[Any]:
        """Yields the messages of a stream that is safe to repeat; after an interruption, those of one for `request()`.

        Raises:
            TimeoutError: the stream has not ended at `until`, on the monotonic clock.
        """
        patience = _calls.Patience()
        while True:
            call = rpc(request(), timeout=None if until is None else max(0.0, until - time.monotonic()))
            try:
                async for message in call:
                    yield message
                    # A stream that breaks after it has begun to answer begins again with patience anew.
                    patience = _calls.Patience()
                return
            except grpc.RpcError as error:
                if until is not None and time.monotonic() >= until:
                    raise TimeoutError from None
                wait = patience.next_wait() if _calls.is_unreachable(error) else None
                if wait is None:
                    raise _calls.error_from(error, self.address) from None
            finally:
                call.cancel()
            await sleep(wait)


class Job:
    """A job of a cluster, which was submitted. Every method may raise NotFound: the job was deleted.

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
                state, step = status_pb2.JobState.Name(status.state), status.progress.step
                raise TimeoutError(f"job {self.id} has not ended after {timeout} s: {state}, step {step}") from None
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

    async def evaluate(
        self, data: str | os.PathLike[str] | None = None, *, metric: str = "", timeout: float | None = None
    ) -> Evaluation:
        """Measures the job's last checkpoint; see Checkpoint.evaluate."""
        return await (await self.last_checkpoint()).evaluate(data, metric=metric, timeout=timeout)

    async def predict(
        self, data: str | os.PathLike[str], out: str | os.PathLike[str], *, force: bool = False
    ) -> int:
        """Writes a table with the predictions of the job's last checkpoint; see Checkpoint.predict."""
        return await (await self.last_checkpoint()).predict(data, out, force=force)

    async def export(
        self, path: str | os.PathLike[str], *, format: Literal["safetensors", "huggingface"] = "safetensors", force: bool = False
    ) -> None:
        """Writes the weights of the job's last checkpoint; see Checkpoint.export."""
        await (await self.last_checkpoint()).export(path, format=format, force=force)

    async def generate(
        self,
        prompt: str,
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
    ) -> str:
        """Continues a text with the transformer of the job's last checkpoint; see Checkpoint.generate."""
        last = await self.last_checkpoint()
        return await last.generate(
            prompt, max_tokens=max_tokens, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed
        )

    async def restore(self, *, steps: int | None = None, epochs: float | None = None) -> Job:
        """Submits a job that goes on from the job's last checkpoint; see Checkpoint.restore."""
        return await (await self.last_checkpoint()).restore(steps=steps, epochs=epochs)

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


class Checkpoint:
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

    async def evaluate(
        self, data: str | os.PathLike[str] | None = None, *, metric: str = "", timeout: float | None = None
    ) -> Evaluation:
        """Measures the checkpoint on data, as `muster evaluate` does: by a job of no steps, which is deleted afterwards.

        Args:
            data: file or folder of the same kind as the job's data, as workers see it; None: the examples that the job held
                out.
            metric: such as auc, if the model has it; empty: the model's usual one.
            timeout: most seconds to wait.

        Raises:
            InvalidArgument: the job runs a program, or its data is synthetic and cannot be replaced.
            JobFailed: the evaluation failed, for example because the data cannot be read.
            TimeoutError: it has not ended in time, and was cancelled.
        """
        spec = _derived_jobs.evaluation_of(await self._job.status(), self.clock, data, metric)
        job = await self._client.submit(JobDraft(spec))
        try:
            last = await job.wait(timeout)
        except (JobFailed, JobCancelled):
            raise
        except BaseException:
            with contextlib.suppress(Error):
                await job.cancel("its user did not wait for it")
            raise
        with contextlib.suppress(NotFound):
            # The coordinator may have forgotten it by itself.
            await job.delete()
        return _derived_jobs.evaluation_in(last, self.clock, metric)

    async def predict(
        self, data: str | os.PathLike[str], out: str | os.PathLike[str], *, force: bool = False
    ) -> int:
        """Writes a CSV file with a prediction for each example of a file, by the program `muster predict`.

        Args:
            data: file, or pattern of files, of the same kind as the job's data, on this machine. The column of the label may
                be left out.
            out: file to write: the columns of the data and, after them, `predicted` and the classes' probabilities.
            force: replaces what is there.

        Returns:
            The number of examples.

        Raises:
            NotFound: there are no such data; or the program is not installed, and it says how to.
            InvalidArgument: the job trains a model of language, runs a program or learns from synthetic data; the data are
                wrong, with file, line and column; or `out` is there already.
        """
        flags = ["--force"] if force else []
        words = ["predict", self._name(), f"--data={os.fspath(data)}", f"--out={os.fspath(out)}", *flags]
        return int((await run_program(self._client._cluster, words))["examples"])

    async def restore(self, *, steps: int | None = None, epochs: float | None = None) -> Job:
        """Submits a new job that goes on from here, with weights, optimizer state and clock; returns it.

        Args:
            steps: where it ends, counted from the first job's start; None: where that job would end.
            epochs: the same in passes over the data.

        Raises:
            InvalidArgument: both are given.
        """
        spec = _derived_jobs.continuation_of(await self._job.status(), self.clock, steps, epochs)
        return await self._client.submit(JobDraft(spec))

    async def export(
        self, path: str | os.PathLike[str], *, format: Literal["safetensors", "huggingface"] = "safetensors", force: bool = False
    ) -> None:
        """Writes the weights for use without the job, by the program `muster export`.

        Args:
            path: file to write; with `huggingface` a folder.
            format: safetensors, which for a transformer also says what it is and how its tokens are made; or huggingface, for
                transformers in the shape of GPT-2 or Llama.
            force: replaces what is there.

        Raises:
            NotFound: the program is not installed; says how to.
        """
        flags = ["--force"] if force else []
        await run_program(
            self._client._cluster, ["export", self._name(), f"--out={os.fspath(path)}", f"--format={format}", *flags]
        )

    async def generate(
        self,
        prompt: str,
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
    ) -> str:
        """Returns what the checkpoint's transformer writes after a text, by the program `muster generate`.

        Arguments that are None are as `muster help generate` says.

        Args:
            max_tokens: most tokens to add.
            temperature: below 1 likely tokens become likelier; 0 always takes the likeliest.
            top_k: chooses among so many likeliest tokens.
            top_p: chooses among the fewest likeliest tokens whose probabilities add up to this.
            seed: the same one gives the same text.

        Raises:
            NotFound: the program is not installed; says how to.
            InvalidArgument: the model is no transformer.
        """
        options = {"max_tokens": max_tokens, "temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
        words = _derived_jobs.generate_words(self._name(), prompt, options)
        return str((await run_program(self._client._cluster, words))["text"])

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
