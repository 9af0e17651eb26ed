"""A connection to a cluster."""

from __future__ import annotations

import os
import secrets
import time
from asyncio import sleep
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Type

import grpc
from grpc import aio as channels

from muster import _calls
from muster._cluster import Cluster, Tls, find_cluster, read_tls
from muster._draft import JobDraft, submitted_form
from muster._ship import pack_folder
from muster.aio._job import Job
from muster.errors import InvalidArgument, NotFound
from muster.v1 import job_pb2, job_service_pb2, status_pb2
from muster.v1.job_service_pb2_grpc import JobServiceStub

_UNFINISHED = (status_pb2.PENDING, status_pb2.PLACING, status_pb2.RUNNING, status_pb2.RECOVERING)
_PAGE_JOBS = 500
# 256 MiB over a slow line.
_SHIP_SECONDS = 600.0
_SHIP_CHUNK_BYTES = 1 << 20


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


def _messages_of(folder: job_service_pb2.ShippedFolder, archive: bytes) -> Iterable[job_service_pb2.ShipFolderRequest]:
    """Yields the messages by which a folder is sent."""
    yield job_service_pb2.ShipFolderRequest(folder=folder)
    for at in range(0, len(archive), _SHIP_CHUNK_BYTES):
        yield job_service_pb2.ShipFolderRequest(data=archive[at : at + _SHIP_CHUNK_BYTES])


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

    async def submit(self, draft: JobDraft, *, ship: bool = False) -> Job:
        """Submits a job, whose owner is this user unless it names one.

        Args:
            ship: send the working folder of the job's program with it, by default the folder of the job's file, so that the
                workers need not have it (docs/programs.md). The folder is read before this first awaits anything.

        Raises:
            InvalidArgument: a field is wrong; the message names it, its value and what would be right. With `ship`, also if
                the folder is too large or has a symbolic link.
            NotFound: there is no such job or checkpoint to start from.
        """
        spec = submitted_form(draft, _calls.user_name())
        if ship:
            await self._ship(spec, draft.folder)
        # The coordinator takes a repeat with the same id for the same job.
        request = job_service_pb2.SubmitJobRequest(spec=spec, request_id=secrets.token_hex(8))
        if request.spec.model.WhichOneof("model") == "program":
            request.program_proof = self._cluster.program_proof(request)
        reply: job_service_pb2.SubmitJobReply = await self._call(self._stub.SubmitJob, request)
        return Job(self, reply.job_id)

    async def _ship(self, spec: job_pb2.JobSpec, folder: str) -> None:
        """Sends the folder of a job's program, unless the coordinator has it, and has the program run in it."""
        if spec.model.WhichOneof("model") != "program":
            raise InvalidArgument("ship=True sends the folder of a job's program, and this job runs none (model.program)")
        program = spec.model.program
        packed = pack_folder(program.working_folder or folder)
        announced = job_service_pb2.ShippedFolder(name=packed.name, bytes=len(packed.archive))
        announced.proof = self._cluster.shipped_proof(announced)
        found = await self._call(self._stub.FindShippedFolder, announced, _SHIP_SECONDS)
        if not found.found:
            # A repeat begins with a new stream.
            await self._call(
                lambda _, timeout: self._stub.ShipFolder(_messages_of(announced, packed.archive), timeout=timeout),
                None,
                _SHIP_SECONDS,
            )
        program.working_folder = ""
        program.shipped = packed.name

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
