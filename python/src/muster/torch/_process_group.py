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
import datetime
import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from muster import _native
from muster._native import Call, DType, Kind, Reduction
from muster.errors import InvalidArgument
from muster.torch import _collective_reports
from muster.torch._arguments import (
    DTYPES, REDUCED_AS, check_tensor, check_written, copy, in_order, make_options, only,
    reduction_of, spread,
)  # fmt: skip
from muster.torch._futures import Futures
from muster.torch._meeting import meet
from muster.torch._operations import operation
from muster.torch._work import Work

# Beyond this number of works for which nobody has waited, one that has ended is forgotten for each new one.
_MOST_UNWAITED = 4096


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
    @operation("broadcast", "tensors", lambda tensor, root: ([tensor], make_options(dist.BroadcastOptions, rootRank=root)))
    def broadcast(self, tensors: Sequence[Tensor], opts: Any = None) -> Work:
        tensor = only(tensors)
        root = 0 if opts is None else opts.rootRank
        return self._in_place(tensor, Call(kind=Kind.BROADCAST, root=root), writes=self._rank != root)

    @operation("all_reduce", "tensors", lambda tensor, op=dist.ReduceOp.SUM: ([tensor], op))
    def allreduce(self, tensors: Sequence[Tensor], opts: Any = None, op: Any = None) -> Work:
        tensor = only(tensors)
        return self._all_reduce(tensor, reduction_of(op if opts is None else opts))

    @operation("all_reduce", "tensors")
    def allreduce_coalesced(self, tensors: Sequence[Tensor], opts: Any = None) -> Work:
        works = [self._all_reduce(each, reduction_of(opts)) for each in tensors]
        return self._joined(works, list(tensors))

    @operation("reduce", "tensors", lambda tensor, root, op=dist.ReduceOp.SUM: (
        [tensor], make_options(dist.ReduceOptions, rootRank=root, reduceOp=op)
    ))  # fmt: skip
    def reduce(self, tensors: Sequence[Tensor], opts: Any = None) -> Work:
        tensor = only(tensors)
        root = 0 if opts is None else opts.rootRank
        call = Call(kind=Kind.REDUCE, reduction=reduction_of(opts), root=root)
        return self._in_place(tensor, call, writes=self._rank == root, reduces=True)

    @operation("all_gather", "input_tensors", lambda output_tensors, input_tensor: ([output_tensors], [input_tensor]))
    def allgather(
        self, output_tensors: Sequence[Sequence[Tensor]], input_tensors: Sequence[Tensor], opts: Any = None
    ) -> Work:
        parts, tensor = only(output_tensors), only(input_tensors)
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
        output, parts = only(output_tensors), only(input_tensors)
        self._check_parts("input", parts, output)
        flat = torch.stack([each.reshape(-1) for each in parts])
        call = Call(kind=Kind.REDUCE_SCATTER, reduction=reduction_of(opts))
        return self._start(call, flat, output, output.numel(), [output], reduces=True)

    @operation("_reduce_scatter_base", "inputTensor")
    def _reduce_scatter_base(self, outputTensor: Tensor, inputTensor: Tensor, opts: Any = None) -> Work:
        self._check_whole("input", inputTensor, outputTensor)
        call = Call(kind=Kind.REDUCE_SCATTER, reduction=reduction_of(opts))
        return self._start(call, inputTensor, outputTensor, outputTensor.numel(), [outputTensor], reduces=True)

    @operation("gather", "input_tensors", lambda output_tensors, input_tensor, root: (
        [output_tensors], [input_tensor], make_options(dist.GatherOptions, rootRank=root)
    ))  # fmt: skip
    def gather(
        self, output_tensors: Sequence[Sequence[Tensor]], input_tensors: Sequence[Tensor], opts: Any = None
    ) -> Work:
        tensor = only(input_tensors)
        root = 0 if opts is None else opts.rootRank
        count = tensor.numel()
        sent = [count if rank == root else 0 for rank in range(self._size)]
        if self._rank != root:
            return self._exchange(tensor, torch.empty(0, dtype=tensor.dtype), sent, [0] * self._size, [])
        parts = only(output_tensors)
        self._check_parts("output", parts, tensor, writes=True)
        flat = torch.empty((self._size, count), dtype=tensor.dtype)
        return self._exchange(tensor, flat, sent, [count] * self._size, list(parts), lambda: spread(flat, parts))

    @operation("scatter", "input_tensors", lambda output_tensor, input_tensors, root: (
        [output_tensor], [input_tensors], make_options(dist.ScatterOptions, rootRank=root)
    ))  # fmt: skip
    def scatter(
        self, output_tensors: Sequence[Tensor], input_tensors: Sequence[Sequence[Tensor]], opts: Any = None
    ) -> Work:
        output = only(output_tensors)
        root = 0 if opts is None else opts.rootRank
        count = output.numel()
        got = [count if rank == root else 0 for rank in range(self._size)]
        if self._rank != root:
            return self._exchange(torch.empty(0, dtype=output.dtype), output, [0] * self._size, got, [output])
        parts = only(input_tensors)
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
            check_written(each)
        flat = torch.cat([each.reshape(-1) for each in input])
        got = [each.numel() for each in output]
        received = torch.empty(sum(got), dtype=flat.dtype)
        return self._exchange(
            flat, received, [each.numel() for each in input], got, list(output),
            lambda: spread(received.split(got), output),
        )  # fmt: skip

    @operation("barrier")
    def barrier(self, opts: Any = None) -> Work:
        none = torch.empty(0)
        return self._start(Call(kind=Kind.BARRIER), none, none, 0, [])

    @operation("send", "tensors")
    def send(self, tensors: Sequence[Tensor], dstRank: int, tag: int) -> Work:
        tensor = only(tensors)
        return self._in_place(tensor, Call(kind=Kind.SEND, root=dstRank, tag=tag), writes=False)

    @operation("recv", "tensors")
    def recv(self, tensors: Sequence[Tensor], srcRank: int, tag: int) -> Work:
        tensor = only(tensors)
        return self._in_place(tensor, Call(kind=Kind.RECEIVE, root=srcRank, tag=tag), writes=True)

    @operation("recvAnySource", "tensors")
    def recv_anysource(self, tensors: Sequence[Tensor], tag: int) -> Work:
        tensor = only(tensors)
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
            copy(torch.sparse_coo_tensor(whole[0].t(), whole[1], tensor.shape).coalesce(), tensor)

        return self._joined(works, [tensor], add_up)

    def _all_gather(self, parts: Sequence[Tensor], tensor: Tensor) -> Work:
        self._check_parts("output", parts, tensor, writes=True)
        flat = torch.empty((self._size, tensor.numel()), dtype=tensor.dtype)
        call = Call(kind=Kind.ALL_GATHER)
        return self._start(call, tensor, flat, tensor.numel(), list(parts), lambda: spread(flat, parts))

    def _in_place(self, tensor: Tensor, call: Call, writes: bool, reduces: bool = False) -> Work:
        """Starts a call whose input is its output, which this rank only reads unless it `writes`."""
        check_tensor(tensor)
        if writes:
            check_written(tensor)
        whole = in_order(tensor)
        if reduces and tensor.dtype in REDUCED_AS:
            whole = whole.to(REDUCED_AS[tensor.dtype])
        finish = (lambda: copy(whole, tensor)) if writes and whole is not tensor else None
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
        check_tensor(tensor)
        if output is not tensor:
            check_tensor(output)
            check_written(output)
        if tensor.dtype != output.dtype:
            raise InvalidArgument(f"input is {tensor.dtype}, output {output.dtype}; both have to have one type")
        source = in_order(tensor)
        if reduces and tensor.dtype in REDUCED_AS:
            source = source.to(REDUCED_AS[tensor.dtype])
        dtype = DTYPES.get(source.dtype)
        width = 1
        if dtype is None:
            if reduces:
                known = ", ".join(str(each).removeprefix("torch.") for each in (*DTYPES, *REDUCED_AS))
                raise InvalidArgument(f"{tensor.dtype} cannot be reduced; expected one of {known}")
            # Any other type is moved as bytes.
            dtype, width = DType.UINT8, source.element_size()
        if in_order(output) is output and output.dtype == source.dtype:
            target = output
        else:
            target = torch.empty(output.shape, dtype=source.dtype)

        def copy_back() -> None:
            if target is not output:
                copy(target, output)
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
            check_tensor(each)
            if writes:
                check_written(each)
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
