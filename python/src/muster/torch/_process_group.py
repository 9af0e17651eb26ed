"""The backend "muster" of torch.distributed: a ProcessGroup in Python over Muster's collectives.

PyTorch's C++ (DistributedDataParallel's reducer) calls allreduce, allgather, broadcast and barrier of a Python subclass;
torch.distributed's functions call all of its methods, whose arguments are named as PyTorch's are. Each starts its call
at once, in the background, and returns a Work; a thread that waits for a Work carries the calls on itself. Where PyTorch wants a
future, a thread of the group's own waits for the work and completes the future (_futures.py).

Tensors go by address. Those whose memory is not their value in order (not contiguous, a conjugate or negative view) are
copied, and so are lists of tensors where the call has one array.
"""

from __future__ import annotations

import atexit
import contextlib
import datetime
import math
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
from muster.torch._futures import Futures
from muster.torch._meeting import meet
from muster.torch._operations import operation

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
    "BAND": Reduction.BAND,
    "BOR": Reduction.BOR,
    "BXOR": Reduction.BXOR,
}
# Types that are reduced as another one, in a copy.
_REDUCED_AS = {torch.int8: torch.int32, torch.int16: torch.int32}


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
        self._event_end: threading.Thread | None = None
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
                if self._event_end is not None:
                    self._event_end.join()
        if self._error is not None:
            raise self._error
        self._keep = None
        return True

    def end_event(self, thread: threading.Thread) -> None:
        """Has each wait also await the thread that ends the operation's event in PyTorch's profiler."""
        self._event_end = thread

    def await_calls(self) -> None:
        """Blocks until the calls have ended, well or not. The output may not yet be where it belongs."""
        for each in self._calls:
            with contextlib.suppress(Exception):
                each.wait()

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

    def source_rank(self) -> int:
        """Returns the rank that sent what was received. REQUIRES: a receive that has ended well."""
        return self._calls[0].source()

    _source_rank = source_rank

    def get_future(self) -> torch.futures.Future[list[Any]]:
        """Returns a future of the result, which a thread of the group completes."""
        with self._lock:
            if self._future is None:
                ended: torch.futures.Future[None] = torch.futures.Future()
                # PyTorch's C++ sees an error only of a function that is called then; set_exception is for Python alone.
                self._future = ended.then(lambda _: self._outcome())
                self._group._futures.add(self._await_error, lambda: ended.set_result(None))
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
        self._futures = Futures(self._timeout)
        # By age. PyTorch's C++ holds its half of a Work, and calls the half in Python only while that lives.
        self._unwaited: dict[int, Work] = {}
        if not _groups:
            # After the first group has connected, so that at exit it comes before what weakref registers then.
            atexit.register(_end_groups)
        _groups.add(self)

    def getBackendName(self) -> str:
        return "muster"

    # Both forms of each call are those of PyTorch's own groups: lists with options, and a single tensor.
    @operation("broadcast", "tensors", lambda tensor, root: ([tensor], _options(dist.BroadcastOptions, rootRank=root)))
    def broadcast(self, tensors: Sequence[Tensor], opts: Any = None) -> Work:
        tensor = _one(tensors)
        root = 0 if opts is None else opts.rootRank
        return self._in_place(tensor, Call(kind=Kind.BROADCAST, root=root), writes=self._rank != root)

    @operation("all_reduce", "tensors", lambda tensor, op=dist.ReduceOp.SUM: ([tensor], op))
    def allreduce(self, tensors: Sequence[Tensor], opts: Any = None, op: Any = None) -> Work:
        tensor = _one(tensors)
        return self._all_reduce(tensor, _reduction(op if opts is None else opts))

    @operation("all_reduce", "tensors")
    def allreduce_coalesced(self, tensors: Sequence[Tensor], opts: Any = None) -> Work:
        works = [self._all_reduce(each, _reduction(opts)) for each in tensors]
        return self._joined(works, list(tensors))

    @operation("reduce", "tensors", lambda tensor, root, op=dist.ReduceOp.SUM: (
        [tensor], _options(dist.ReduceOptions, rootRank=root, reduceOp=op)
    ))  # fmt: skip
    def reduce(self, tensors: Sequence[Tensor], opts: Any = None) -> Work:
        tensor = _one(tensors)
        root = 0 if opts is None else opts.rootRank
        call = Call(kind=Kind.REDUCE, reduction=_reduction(opts), root=root)
        return self._in_place(tensor, call, writes=self._rank == root, reduces=True)

    @operation("all_gather", "input_tensors", lambda output_tensors, input_tensor: ([output_tensors], [input_tensor]))
    def allgather(
        self, output_tensors: Sequence[Sequence[Tensor]], input_tensors: Sequence[Tensor], opts: Any = None
    ) -> Work:
        parts, tensor = _one(output_tensors), _one(input_tensors)
        return self._all_gather(parts, tensor)

    @operation("_allgather_base", "input")
    def _allgather_base(self, output: Tensor, input: Tensor, opts: Any = None) -> Work:
        self._check_whole("output", output, input)
        return self._start(Call(kind=Kind.ALL_GATHER), input, output, input.numel(), [output])

    @operation("all_gather", "input_list")
    def allgather_coalesced(
        self, output_lists: Sequence[Sequence[Tensor]], input_list: Sequence[Tensor], opts: Any = None
    ) -> Work:
        works = [self._all_gather([each[i] for each in output_lists], tensor) for i, tensor in enumerate(input_list)]
        return self._joined(works, list(output_lists))

    @operation("reduce_scatter", "input_tensors", lambda output_tensors, input_tensor, op=dist.ReduceOp.SUM: (
        [output_tensors], [input_tensor], op
    ))  # fmt: skip
    def reduce_scatter(
        self, output_tensors: Sequence[Tensor], input_tensors: Sequence[Sequence[Tensor]], opts: Any = None
    ) -> Work:
        output, parts = _one(output_tensors), _one(input_tensors)
        self._check_parts("input", parts, output)
        flat = torch.stack([each.reshape(-1) for each in parts])
        call = Call(kind=Kind.REDUCE_SCATTER, reduction=_reduction(opts))
        return self._start(call, flat, output, output.numel(), [output], reduces=True)

    @operation("_reduce_scatter_base", "inputTensor")
    def _reduce_scatter_base(self, outputTensor: Tensor, inputTensor: Tensor, opts: Any = None) -> Work:
        self._check_whole("input", inputTensor, outputTensor)
        call = Call(kind=Kind.REDUCE_SCATTER, reduction=_reduction(opts))
        return self._start(call, inputTensor, outputTensor, outputTensor.numel(), [outputTensor], reduces=True)

    @operation("gather", "input_tensors", lambda output_tensors, input_tensor, root: (
        [output_tensors], [input_tensor], _options(dist.GatherOptions, rootRank=root)
    ))  # fmt: skip
    def gather(
        self, output_tensors: Sequence[Sequence[Tensor]], input_tensors: Sequence[Tensor], opts: Any = None
    ) -> Work:
        tensor = _one(input_tensors)
        root = 0 if opts is None else opts.rootRank
        count = tensor.numel()
        sent = [count if rank == root else 0 for rank in range(self._size)]
        if self._rank != root:
            return self._exchange(tensor, torch.empty(0, dtype=tensor.dtype), sent, [0] * self._size, [])
        parts = _one(output_tensors)
        self._check_parts("output", parts, tensor, writes=True)
        flat = torch.empty((self._size, count), dtype=tensor.dtype)
        return self._exchange(tensor, flat, sent, [count] * self._size, list(parts), lambda: _spread(flat, parts))

    @operation("scatter", "input_tensors", lambda output_tensor, input_tensors, root: (
        [output_tensor], [input_tensors], _options(dist.ScatterOptions, rootRank=root)
    ))  # fmt: skip
    def scatter(
        self, output_tensors: Sequence[Tensor], input_tensors: Sequence[Sequence[Tensor]], opts: Any = None
    ) -> Work:
        output = _one(output_tensors)
        root = 0 if opts is None else opts.rootRank
        count = output.numel()
        got = [count if rank == root else 0 for rank in range(self._size)]
        if self._rank != root:
            return self._exchange(torch.empty(0, dtype=output.dtype), output, [0] * self._size, got, [output])
        parts = _one(input_tensors)
        self._check_parts("input", parts, output)
        flat = torch.stack([each.reshape(-1) for each in parts])
        return self._exchange(flat, output, [count] * self._size, got, [output])

    @operation("all_to_all", "input")
    def alltoall_base(
        self,
        output: Tensor,
        input: Tensor,
        output_split_sizes: Sequence[int],
        input_split_sizes: Sequence[int],
        opts: Any = None,
    ) -> Work:
        sent = self._counts("input", input, input_split_sizes)
        return self._exchange(input, output, sent, self._counts("output", output, output_split_sizes), [output])

    @operation("all_to_all", "input")
    def alltoall(self, output: Sequence[Tensor], input: Sequence[Tensor], opts: Any = None) -> Work:
        if len(input) != self._size or len(output) != self._size:
            raise InvalidArgument(
                f"all_to_all has {len(input)} inputs and {len(output)} outputs; expected {self._size} of each, one a rank"
            )
        for each in output:
            _check_written(each)
        flat = torch.cat([each.reshape(-1) for each in input])
        got = [each.numel() for each in output]
        received = torch.empty(sum(got), dtype=flat.dtype)
        return self._exchange(
            flat, received, [each.numel() for each in input], got, list(output),
            lambda: _spread(received.split(got), output),
        )  # fmt: skip

    @operation("barrier")
    def barrier(self, opts: Any = None) -> Work:
        none = torch.empty(0)
        return self._start(Call(kind=Kind.BARRIER), none, none, 0, [])

    @operation("send", "tensors")
    def send(self, tensors: Sequence[Tensor], dstRank: int, tag: int) -> Work:
        tensor = _one(tensors)
        return self._in_place(tensor, Call(kind=Kind.SEND, root=dstRank, tag=tag), writes=False)

    @operation("recv", "tensors")
    def recv(self, tensors: Sequence[Tensor], srcRank: int, tag: int) -> Work:
        tensor = _one(tensors)
        return self._in_place(tensor, Call(kind=Kind.RECEIVE, root=srcRank, tag=tag), writes=True)

    @operation("recvAnySource", "tensors")
    def recv_anysource(self, tensors: Sequence[Tensor], tag: int) -> Work:
        tensor = _one(tensors)
        return self._in_place(tensor, Call(kind=Kind.RECEIVE, root=_native.ANY_RANK, tag=tag), writes=True)

    def abort(self, reason: str) -> None:
        """Ends all calls on all ranks with this reason."""
        self._group.abort(reason)

    def _all_reduce(self, tensor: Tensor, reduction: Reduction) -> Work:
        if tensor.layout == torch.sparse_coo:
            return self._all_reduce_sparse(tensor, reduction)
        return self._in_place(tensor, Call(kind=Kind.ALL_REDUCE, reduction=reduction), writes=True, reduces=True)

    def _all_reduce_sparse(self, tensor: Tensor, reduction: Reduction) -> Work:
        """Gathers all ranks' indices and values, and adds them up here. Blocks until all ranks have told their numbers."""
        if reduction != Reduction.SUM:
            raise InvalidArgument(f"sparse tensors are reduced by SUM alone, and this is {reduction.name}")
        mine = tensor.coalesce()
        # A row of both for each element.
        indices, values = mine.indices().t(), mine.values()
        shapes = torch.empty((self._size, 2 + tensor.dim()), dtype=torch.int64)
        own = torch.tensor([len(values), tensor.sparse_dim(), *tensor.shape])
        self._start(Call(kind=Kind.ALL_GATHER), own, shapes, own.numel(), []).wait()
        for rank, told in enumerate(shapes):
            if not torch.equal(told[1:], own[1:]):
                raise InvalidArgument(
                    f"a sparse tensor of rank {self._rank} has {own[1]} sparse dimensions and the shape {own[2:].tolist()}, "
                    f"and rank {rank}'s {told[1]} and {told[2:].tolist()}; all have to be alike"
                )
        counts = shapes[:, 0].tolist()
        whole, works = [], []
        for part in (indices, values):
            width = math.prod(part.shape[1:])
            whole.append(part.new_empty((sum(counts), *part.shape[1:])))
            elements = [each * width for each in counts]
            works.append(self._start(Call(kind=Kind.ALL_GATHER), part, whole[-1], 0, [], counts=elements))

        def add_up() -> None:
            _copy(torch.sparse_coo_tensor(whole[0].t(), whole[1], tensor.shape).coalesce(), tensor)

        return self._joined(works, [tensor], add_up)

    def _all_gather(self, parts: Sequence[Tensor], tensor: Tensor) -> Work:
        self._check_parts("output", parts, tensor, writes=True)
        flat = torch.empty((self._size, tensor.numel()), dtype=tensor.dtype)
        call = Call(kind=Kind.ALL_GATHER)
        return self._start(call, tensor, flat, tensor.numel(), list(parts), lambda: _spread(flat, parts))

    def _in_place(self, tensor: Tensor, call: Call, writes: bool, reduces: bool = False) -> Work:
        """Starts a call whose input is its output, which this rank only reads unless it `writes`."""
        _check_tensor(tensor)
        if writes:
            _check_written(tensor)
        whole = _in_order(tensor)
        if reduces and tensor.dtype in _REDUCED_AS:
            whole = whole.to(_REDUCED_AS[tensor.dtype])
        finish = (lambda: _copy(whole, tensor)) if writes and whole is not tensor else None
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
        """Starts a call; copies tensors whose memory is not their value in order."""
        _check_tensor(tensor)
        if output is not tensor:
            _check_tensor(output)
            _check_written(output)
        if tensor.dtype != output.dtype:
            raise InvalidArgument(f"input is {tensor.dtype}, output {output.dtype}; both have to have one type")
        source = _in_order(tensor)
        if reduces and tensor.dtype in _REDUCED_AS:
            source = source.to(_REDUCED_AS[tensor.dtype])
        dtype = _DTYPES.get(source.dtype)
        width = 1
        if dtype is None:
            if reduces:
                known = ", ".join(str(each).removeprefix("torch.") for each in (*_DTYPES, *_REDUCED_AS))
                raise InvalidArgument(f"{tensor.dtype} cannot be reduced; expected one of {known}")
            # Any other type is moved as bytes.
            dtype, width = DType.UINT8, source.element_size()
        if _in_order(output) is output and output.dtype == source.dtype:
            target = output
        else:
            target = torch.empty(output.shape, dtype=source.dtype)

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

    def _joined(self, works: list[Work], result: list[Any], then: Callable[[], None] | None = None) -> Work:
        """Returns one work for several."""

        def finish() -> None:
            for each in works:
                each.wait()
            if then is not None:
                then()

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

    def _check_parts(self, name: str, parts: Sequence[Tensor], tensor: Tensor, writes: bool = False) -> None:
        """Checks a list of one tensor for each rank."""
        if len(parts) != self._size:
            raise InvalidArgument(f"the {name} has {len(parts)} tensors; expected {self._size}, one for each rank")
        for rank, each in enumerate(parts):
            _check_tensor(each)
            if writes:
                _check_written(each)
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

    def _end(self) -> None:
        """Ends all calls and the group's threads, and leaves the group."""
        unwaited = list(self._unwaited.values())
        if not all(each.is_completed() for each in unwaited):
            self._group.abort("its process ends while calls are under way")
        for each in unwaited:
            each._await_error()
        self._futures.close()
        self._futures.join()
        self._group.leave()

    def __del__(self) -> None:
        if hasattr(self, "_futures"):
            self._futures.close()


_groups: weakref.WeakSet[ProcessGroup] = weakref.WeakSet()


def _end_groups() -> None:
    """Ends all groups at exit, while the tensors are there that their calls read and write."""
    for each in list(_groups):
        if not each._group.is_forked():
            each._end()


def _options(kind: Any, **values: Any) -> Any:
    """Returns one of PyTorch's objects of options."""
    options = kind()
    for name, value in values.items():
        setattr(options, name, value)
    return options


def _one(given: Sequence[Any]) -> Any:
    """Returns the only element: PyTorch's lists have one for each device of a rank."""
    if len(given) != 1:
        raise InvalidArgument(f"a call of the backend muster has one tensor, or list of them, a rank; this has {len(given)}")
    return given[0]


def _reduction(opts: Any) -> Reduction:
    """Returns the reduction that PyTorch's options, or its operation itself, name."""
    op = dist.ReduceOp.SUM if opts is None else getattr(opts, "reduceOp", opts)
    name = getattr(op, "op", op).name
    if name not in _REDUCTIONS:
        raise InvalidArgument(f"{name} is not known to the backend muster; expected one of {', '.join(_REDUCTIONS)}")
    return _REDUCTIONS[name]


def _in_order(tensor: Tensor) -> Tensor:
    """Returns the tensor, or a copy if its memory is not its value, element after element."""
    if tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg():
        return tensor
    return tensor.resolve_conj().resolve_neg().contiguous()


def _check_tensor(tensor: Tensor) -> None:
    if not tensor.is_cpu or tensor.layout != torch.strided:
        what = f"{tensor.layout} tensor on {tensor.device}".removeprefix("torch.")
        raise InvalidArgument(f"the backend muster takes dense tensors on the processor; this is a {what}")


def _check_written(tensor: Tensor) -> None:
    """Checks a tensor that a call writes."""
    if any(size > 1 and stride == 0 for size, stride in zip(tensor.shape, tensor.stride())):
        raise InvalidArgument(
            f"several elements of the {tuple(tensor.shape)} tensor are one place in memory (expand), which no call can "
            "fill; give a clone"
        )


def _copy(source: Tensor, target: Tensor) -> None:
    with torch.no_grad():
        target.copy_(source)


def _spread(flat: Any, parts: Sequence[Tensor]) -> None:
    """Copies the rows of an array into tensors."""
    for row, part in zip(flat, parts):
        _copy(row.view(part.shape), part)
