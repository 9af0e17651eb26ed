"""The backend "muster" of torch.distributed: a ProcessGroup in Python over Muster's collectives.

PyTorch's C++ (DistributedDataParallel's reducer) calls allreduce, allgather, broadcast and barrier of a Python subclass;
torch.distributed's functions call all of its methods. Each starts its call at once, in the background, and returns a Work; a
thread that waits for a Work carries the calls on itself. Where PyTorch wants a future, a thread of the group's own waits for
the work and completes the future.

Tensors go by address. A tensor that is not contiguous, and lists of tensors where the call has one array, are copied.
"""

from __future__ import annotations

import atexit
import contextlib
import datetime
import queue
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Optional

import torch
import torch.distributed as dist
from torch import Tensor

from muster import _native
from muster._native import Call, DType, Kind, Reduction
from muster.errors import CollectiveError, InvalidArgument
from muster.torch import _collective_reports
from muster.torch._meeting import meet

# Beyond this number of works for which nobody has waited, one that has ended is forgotten for each new one.
_MOST_UNWAITED = 4096

_DTYPES = {
    torch.float32: DType.F32,
    torch.float64: DType.F64,
    torch.float16: DType.F16,
    torch.bfloat16: DType.BF16,
    torch.int32: DType.INT32,
    torch.int64: DType.INT64,
    torch.uint8: DType.UINT8,
}
_REDUCTIONS = {
    "SUM": Reduction.SUM,
    "AVG": Reduction.AVG,
    "MIN": Reduction.MIN,
    "MAX": Reduction.MAX,
    "PRODUCT": Reduction.PROD,
}


class Work(dist._Work):  # type: ignore[misc]
    """Calls that were started for one operation. Any thread may wait for it."""

    def __init__(
        self, group: ProcessGroup, calls: list[_native.Work], keep: object, result: list[Any], finish: Callable[[], None] | None
    ) -> None:
        """
        Args:
            keep: what the calls read and write.
            result: the operation's output.
            finish: copies the output to where it belongs, once the calls have ended.
        """
        super().__init__()
        self._group = group
        self._calls = calls
        self._keep = keep
        self._result = result
        self._finish = finish
        self._lock = threading.Lock()
        self._error: Exception | None = None
        self._future: torch.futures.Future[list[Any]] | None = None
        group._keep(self)

    def wait(self, timeout: Optional[datetime.timedelta] = None) -> bool:
        """Blocks until the operation has ended. The limit is that of the group, not `timeout`.

        Raises:
            CollectiveError: it failed; the message names rank and call.
            InvalidArgument: a call is wrong in itself.
            Exception: what came when the output was copied to where it belongs. Every later wait raises the same error.
        """
        try:
            for each in self._calls:
                each.wait()
            with self._lock:
                finish, self._finish = self._finish, None
                try:
                    if finish is not None:
                        finish()
                except Exception as error:
                    # Before the lock is given up, so that another thread that waits finds it.
                    self._error = error
        except Exception as error:
            if isinstance(error, CollectiveError):
                self._group._tell_failure()
            self._error = self._error or error
        finally:
            # Not after an exception that came before the end, of a signal handler for example.
            if self.is_completed():
                self._group._forget(self)
        if self._error is not None:
            raise self._error
        self._keep = None
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return all(each.ended() for each in self._calls)

    def is_success(self) -> bool:
        return self.is_completed() and self.exception() is None

    def exception(self) -> Exception | None:
        return self._await_error() if self.is_completed() else None

    def result(self) -> list[Any]:
        return self._result

    def get_future(self) -> torch.futures.Future[list[Any]]:
        """Returns a future of the result, which a thread of the group completes."""
        with self._lock:
            if self._future is None:
                ended: torch.futures.Future[None] = torch.futures.Future()
                # PyTorch's C++ sees an error only of a function that is called then; set_exception is for Python alone.
                self._future = ended.then(lambda _: self._outcome())
                self._group._complete_later(self, ended)
            return self._future

    def _await_error(self) -> Exception | None:
        """Blocks until the operation has ended; returns its error."""
        with contextlib.suppress(Exception):
            self.wait()
        return self._error

    def _outcome(self) -> list[Any]:
        self.wait()
        return self._result


class ProcessGroup(dist.ProcessGroup):  # type: ignore[misc]
    """The ranks of one group. Every rank makes the same calls in the same order; others end in one error everywhere."""

    def __init__(self, store: dist.Store, rank: int, size: int, timeout: datetime.timedelta) -> None:
        """Meets the other ranks, which `store` brings together."""
        super().__init__(rank, size)
        self._rank = rank
        self._size = size
        self._timeout = timeout.total_seconds()
        self._group, name = meet(store, rank, size, self._timeout)
        self._has_failed = False
        _collective_reports.add(self._group, name)
        self._futures: queue.SimpleQueue[tuple[Work, torch.futures.Future[None]] | None] = queue.SimpleQueue()
        self._completer: threading.Thread | None = None
        # By age. PyTorch's C++ holds its half of a Work, and calls the half in Python only while that lives.
        self._unwaited: dict[int, Work] = {}
        if not _groups:
            # After the first group has connected, so that at exit it comes before what weakref registers then.
            atexit.register(_end_groups)
        _groups.add(self)

    def getBackendName(self) -> str:
        return "muster"

    def broadcast(self, tensors: Sequence[Tensor], opts: Any) -> Work:
        (tensor,) = tensors
        return self._in_place(tensor, Call(kind=Kind.BROADCAST, root=opts.rootRank), reduces=False)

    def allreduce(self, tensors: Sequence[Tensor], opts: Any = None) -> Work:
        (tensor,) = tensors
        return self._in_place(tensor, Call(kind=Kind.ALL_REDUCE, reduction=_reduction(opts)), reduces=True)

    def allreduce_coalesced(self, tensors: Sequence[Tensor], opts: Any = None) -> Work:
        works = [self.allreduce([each], opts) for each in tensors]
        return self._joined(works, list(tensors))

    def reduce(self, tensors: Sequence[Tensor], opts: Any) -> Work:
        (tensor,) = tensors
        call = Call(kind=Kind.REDUCE, reduction=_reduction(opts), root=opts.rootRank)
        return self._in_place(tensor, call, reduces=True)

    def allgather(self, outputs: Sequence[Sequence[Tensor]], inputs: Sequence[Tensor], opts: Any = None) -> Work:
        (parts,), (tensor,) = outputs, inputs
        self._check_parts("output", parts, tensor)
        flat = torch.empty((self._size, tensor.numel()), dtype=tensor.dtype)
        call = Call(kind=Kind.ALL_GATHER)
        return self._start(call, tensor, flat, tensor.numel(), list(parts), lambda: _spread(flat, parts))

    def _allgather_base(self, output: Tensor, tensor: Tensor, opts: Any = None) -> Work:
        self._check_whole("output", output, tensor)
        return self._start(Call(kind=Kind.ALL_GATHER), tensor, output, tensor.numel(), [output])

    def allgather_coalesced(self, outputs: Sequence[Sequence[Tensor]], inputs: Sequence[Tensor], opts: Any = None) -> Work:
        works = [
            self.allgather([[each[i] for each in outputs]], [tensor], opts) for i, tensor in enumerate(inputs)
        ]
        return self._joined(works, list(outputs))

    def reduce_scatter(self, outputs: Sequence[Tensor], inputs: Sequence[Sequence[Tensor]], opts: Any = None) -> Work:
        (output,), (parts,) = outputs, inputs
        self._check_parts("input", parts, output)
        flat = torch.stack([each.reshape(-1) for each in parts])
        call = Call(kind=Kind.REDUCE_SCATTER, reduction=_reduction(opts))
        return self._start(call, flat, output, output.numel(), [output], reduces=True)

    def _reduce_scatter_base(self, output: Tensor, tensor: Tensor, opts: Any = None) -> Work:
        self._check_whole("input", tensor, output)
        call = Call(kind=Kind.REDUCE_SCATTER, reduction=_reduction(opts))
        return self._start(call, tensor, output, output.numel(), [output], reduces=True)

    def gather(self, outputs: Sequence[Sequence[Tensor]], inputs: Sequence[Tensor], opts: Any) -> Work:
        (tensor,) = inputs
        count = tensor.numel()
        sent = [count if rank == opts.rootRank else 0 for rank in range(self._size)]
        if self._rank != opts.rootRank:
            return self._exchange(tensor, torch.empty(0, dtype=tensor.dtype), sent, [0] * self._size, [])
        (parts,) = outputs
        self._check_parts("output", parts, tensor)
        flat = torch.empty((self._size, count), dtype=tensor.dtype)
        return self._exchange(tensor, flat, sent, [count] * self._size, list(parts), lambda: _spread(flat, parts))

    def scatter(self, outputs: Sequence[Tensor], inputs: Sequence[Sequence[Tensor]], opts: Any) -> Work:
        (output,) = outputs
        count = output.numel()
        got = [count if rank == opts.rootRank else 0 for rank in range(self._size)]
        if self._rank != opts.rootRank:
            return self._exchange(torch.empty(0, dtype=output.dtype), output, [0] * self._size, got, [output])
        (parts,) = inputs
        self._check_parts("input", parts, output)
        flat = torch.stack([each.reshape(-1) for each in parts])
        return self._exchange(flat, output, [count] * self._size, got, [output])

    def alltoall_base(
        self, output: Tensor, tensor: Tensor, output_splits: Sequence[int], input_splits: Sequence[int], opts: Any = None
    ) -> Work:
        return self._exchange(
            tensor, output, self._counts("input", tensor, input_splits), self._counts("output", output, output_splits), [output]
        )

    def alltoall(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any = None) -> Work:
        if len(inputs) != self._size or len(outputs) != self._size:
            raise InvalidArgument(
                f"all_to_all has {len(inputs)} inputs and {len(outputs)} outputs; expected {self._size} of each, one a rank"
            )
        flat = torch.cat([each.reshape(-1) for each in inputs])
        got = [each.numel() for each in outputs]
        received = torch.empty(sum(got), dtype=flat.dtype)
        return self._exchange(
            flat, received, [each.numel() for each in inputs], got, list(outputs),
            lambda: _spread(received.split(got), outputs),
        )  # fmt: skip

    def barrier(self, opts: Any = None) -> Work:
        none = torch.empty(0)
        return self._start(Call(kind=Kind.BARRIER), none, none, 0, [])

    def send(self, tensors: Sequence[Tensor], rank: int, tag: int) -> Work:
        (tensor,) = tensors
        return self._message(Call(kind=Kind.SEND, root=rank), tensor, tag)

    def recv(self, tensors: Sequence[Tensor], rank: int, tag: int) -> Work:
        (tensor,) = tensors
        return self._message(Call(kind=Kind.RECEIVE, root=rank), tensor, tag)

    def recv_anysource(self, tensors: Sequence[Tensor], tag: int) -> Work:
        raise InvalidArgument("the backend muster receives from a rank that is named; give recv a source")

    def abort(self, reason: str) -> None:
        """Ends all calls on all ranks with this reason."""
        self._group.abort(reason)

    def _message(self, call: Call, tensor: Tensor, tag: int) -> Work:
        if tag != 0:
            raise InvalidArgument(f"the tag is {tag}; the backend muster has no tags: messages of a pair come in their order")
        return self._in_place(tensor, call, reduces=False)

    def _in_place(self, tensor: Tensor, call: Call, reduces: bool) -> Work:
        """Starts a call whose input is its output."""
        whole = tensor if tensor.is_contiguous() else tensor.contiguous()
        finish = None if whole is tensor else lambda: _copy(whole, tensor)
        return self._start(call, whole, whole, tensor.numel(), [tensor], finish, reduces)

    def _exchange(
        self,
        tensor: Tensor,
        output: Tensor,
        sent: Sequence[int],
        got: Sequence[int],
        result: list[Any],
        finish: Callable[[], None] | None = None,
    ) -> Work:
        """Starts an all-to-all of so many elements to and from each rank."""
        return self._start(Call(kind=Kind.ALL_TO_ALL), tensor, output, 0, result, finish, counts=got, send_counts=sent)

    def _start(
        self,
        call: Call,
        tensor: Tensor,
        output: Tensor,
        count: int,
        result: list[Any],
        finish: Callable[[], None] | None = None,
        reduces: bool = False,
        counts: Sequence[int] | None = None,
        send_counts: Sequence[int] | None = None,
    ) -> Work:
        """Starts a call; copies tensors that are not contiguous."""
        _check_tensor(tensor)
        _check_tensor(output)
        if tensor.dtype != output.dtype:
            raise InvalidArgument(f"input is {tensor.dtype}, output {output.dtype}; both have to have one type")
        dtype = _DTYPES.get(tensor.dtype)
        width = 1
        if dtype is None:
            if reduces:
                known = ", ".join(str(each).removeprefix("torch.") for each in _DTYPES)
                raise InvalidArgument(f"{tensor.dtype} cannot be reduced; expected one of {known}")
            # Any other type is moved as bytes.
            dtype, width = DType.UINT8, tensor.element_size()
        source = tensor.contiguous()
        target = output if output.is_contiguous() else torch.empty_like(output, memory_format=torch.contiguous_format)

        def copy_back() -> None:
            if target is not output:
                _copy(target, output)
            if finish is not None:
                finish()

        call.dtype = dtype
        call.input = source.data_ptr()
        call.output = target.data_ptr()
        call.count = count * width
        call.timeout_seconds = self._timeout
        if counts is not None:
            call.counts = _native.sizes([each * width for each in counts])
        if send_counts is not None:
            call.send_counts = _native.sizes([each * width for each in send_counts])
        return Work(self, [self._group.start(call)], (source, target), result, copy_back)

    def _joined(self, works: list[Work], result: list[Any]) -> Work:
        """Returns one work for several."""

        def finish() -> None:
            for each in works:
                each.wait()

        return Work(self, [call for each in works for call in each._calls], works, result, finish)

    def _counts(self, name: str, tensor: Tensor, splits: Sequence[int]) -> list[int]:
        """Returns the elements for each rank, of rows for each rank."""
        rows = tensor.shape[0] if tensor.dim() else 1
        if not splits:
            if rows % self._size:
                raise InvalidArgument(f"the {name} has {rows} rows, which {self._size} ranks cannot divide evenly")
            splits = [rows // self._size] * self._size
        if len(splits) != self._size or sum(splits) != rows:
            raise InvalidArgument(
                f"the {name}'s splits are {list(splits)}; expected {self._size} numbers whose sum is its {rows} rows"
            )
        width = tensor.numel() // rows if rows else 0
        return [each * width for each in splits]

    def _check_parts(self, name: str, parts: Sequence[Tensor], tensor: Tensor) -> None:
        """Checks a list of one tensor for each rank."""
        if len(parts) != self._size:
            raise InvalidArgument(f"the {name} has {len(parts)} tensors; expected {self._size}, one for each rank")
        for rank, each in enumerate(parts):
            _check_tensor(each)
            if each.numel() != tensor.numel() or each.dtype != tensor.dtype:
                raise InvalidArgument(
                    f"tensor {rank} of the {name} has {each.numel()} elements of {each.dtype}; expected {tensor.numel()} of "
                    f"{tensor.dtype}"
                )

    def _check_whole(self, name: str, whole: Tensor, tensor: Tensor) -> None:
        """Checks a tensor of all ranks' parts."""
        if whole.numel() != self._size * tensor.numel():
            raise InvalidArgument(
                f"the {name} has {whole.numel()} elements; expected {self._size} ranks x {tensor.numel()}"
            )

    def _keep(self, work: Work) -> None:
        """Keeps a work, and with it what its calls read and write, until somebody has waited for it or it is one too many."""
        earlier = list(self._unwaited.values())
        self._unwaited[id(work)] = work
        if len(earlier) >= _MOST_UNWAITED:
            one = next((each for each in earlier if each.is_completed()), earlier[0])
            one._await_error()
            self._forget(one)

    def _tell_failure(self) -> None:
        """Tells the job the last calls, when the first has failed."""
        if not self._has_failed:
            self._has_failed = True
            _collective_reports.tell()

    def _forget(self, work: Work) -> None:
        self._unwaited.pop(id(work), None)

    def _complete_later(self, work: Work, ended: torch.futures.Future[None]) -> None:
        if self._completer is None:
            # Knows the queue alone, so that the group can end before it.
            self._completer = threading.Thread(target=_complete, args=(self._futures,), daemon=True)
            self._completer.start()
        self._futures.put((work, ended))

    def _end(self) -> None:
        """Ends all calls and the group's threads, and leaves the group."""
        unwaited = list(self._unwaited.values())
        if not all(each.is_completed() for each in unwaited):
            self._group.abort("its process ends while calls are under way")
        for each in unwaited:
            each._await_error()
        if self._completer is not None:
            self._futures.put(None)
            self._completer.join()
        self._group.leave()

    def __del__(self) -> None:
        if getattr(self, "_completer", None) is not None:
            self._futures.put(None)


_groups: weakref.WeakSet[ProcessGroup] = weakref.WeakSet()


def _end_groups() -> None:
    """Ends all groups at exit, while the tensors are there that their calls read and write."""
    for each in list(_groups):
        each._end()


def _complete(futures: queue.SimpleQueue[tuple[Work, torch.futures.Future[None]] | None]) -> None:
    """Completes futures in the order of their works."""
    for work, ended in iter(futures.get, None):
        # Its outcome is the future's.
        work._await_error()
        ended.set_result(None)
        del work, ended


def _reduction(opts: Any) -> Reduction:
    op = dist.ReduceOp.SUM if opts is None else opts.reduceOp
    for name, reduction in _REDUCTIONS.items():
        if op == getattr(dist.ReduceOp, name):
            return reduction
    raise InvalidArgument(f"{op} is not known to the backend muster; expected one of {', '.join(_REDUCTIONS)}")


def _check_tensor(tensor: Tensor) -> None:
    if tensor.device.type != "cpu" or tensor.layout != torch.strided:
        what = f"{tensor.layout} tensor on {tensor.device}".removeprefix("torch.")
        raise InvalidArgument(f"the backend muster takes dense tensors on the processor; this is a {what}")


def _copy(source: Tensor, target: Tensor) -> None:
    with torch.no_grad():
        target.copy_(source)


def _spread(flat: Any, parts: Sequence[Tensor]) -> None:
    """Copies the rows of an array into tensors."""
    for row, part in zip(flat, parts):
        _copy(row.view(part.shape), part)
