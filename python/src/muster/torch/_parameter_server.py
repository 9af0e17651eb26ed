"""Parameters of PyTorch models on Muster's servers (docs/python.md)."""

from __future__ import annotations

import contextlib
import math
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from muster import _stand_in, program
from muster._servers import Servers
from muster.errors import Error, InvalidArgument
from muster.optimizers import Optimizer


class Embedding(torch.nn.Module):  # type: ignore[misc]
    """A table of rows for 64-bit keys, on servers: forward takes a tensor of keys (int64) and gives their rows.

    Any key has a row: it begins with values drawn from N(0, `std`²) by the key, and takes memory from its first gradient on.
    The table's optimizer is that of the ParameterServer whose model has this module; without one, forward is an error.
    """

    def __init__(self, dim: int, *, std: float = 1.0) -> None:
        super().__init__()
        self.dim = dim
        self.std = std
        self._table = -1
        # Not registered, so that it stays out of state_dict.
        object.__setattr__(self, "_served", None)
        # Autograd calls backward only if some input wants gradients.
        object.__setattr__(self, "_anchor", torch.empty(0, requires_grad=True))

    def forward(self, keys: torch.Tensor) -> torch.Tensor:
        if self._served is None:
            raise Error(
                "FAILED_PRECONDITION",
                "this Embedding has no servers; give the model that it is in to muster.torch.ParameterServer first",
            )
        if keys.dtype != torch.int64 or keys.device.type != "cpu":
            raise InvalidArgument(f"keys are {keys.dtype} on {keys.device}; Embedding takes int64 on the CPU")
        rows: torch.Tensor = _LookUp.apply(keys, self._anchor, self, torch.is_grad_enabled())
        return rows

    def extra_repr(self) -> str:
        return f"dim={self.dim}, std={self.std}"

    def __getstate__(self) -> None:
        raise InvalidArgument("the rows of an Embedding are on servers; they cannot be copied or pickled with the module")


class _LookUp(torch.autograd.Function):  # type: ignore[misc]
    """Rows by key."""

    @staticmethod
    def forward(context: Any, keys: torch.Tensor, anchor: torch.Tensor, embedding: Embedding, trains: bool) -> torch.Tensor:
        keys = keys.contiguous()
        rows = torch.empty((*keys.shape, embedding.dim))
        context.served = embedding._served
        number = embedding._served._look_up(embedding._table, keys, rows, trains)
        context.number = number
        return rows

    @staticmethod
    def backward(context: Any, gradients: torch.Tensor) -> tuple[None, None, None, None]:
        context.served._row_gradients(context.number, gradients.contiguous())
        return None, None, None, None


class ParameterServer:
    """Trains a model whose parameters, and the rows of its `Embedding`s, are on servers.

        served = muster.torch.ParameterServer(model, optimizer=muster.Adagrad(lr=0.02), staleness=4)
        for step in range(served.clock, steps):
            loss(model(x), y).backward()
            served.step()

    Gradients are pushed while backward runs, and parameters pulled before a module's next forward. Each step's gradient is the
    mean of the ranks' gradients, as with DistributedDataParallel; the optimizer runs on the servers. All ranks make it with
    the same model, and begin with the values of rank 0. Buffers, such as BatchNorm's, and parameters that require no gradient
    stay with each rank.

    In a job it takes the job's servers (`update: {dense: PARAMETER_SERVER}`). In a plain script it submits a job to the cluster
    that `muster up --allow-programs` started, which lasts as long as the script.

    Attributes:
        module: the model. Its parameters' values lie where servers write them: read them, or copy them, between `synchronize`
            and the next `step`.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        optimizer: Optimizer,
        *,
        staleness: float = 0,
        deterministic: bool = False,
        seed: int = 0,
        cache_bytes: int = 0,
        job: Mapping[str, Any] | None = None,
    ) -> None:
        """Blocks until the servers have the model.

        Args:
            staleness: number of steps that the fastest rank may be ahead of the slowest: 0 is BSP, more is SSP, math.inf is
                ASP.
            deterministic: ranks' gradients are summed in one order, so that runs repeat bit for bit. Needs staleness 0.
            seed: of the rows' first values.
            cache_bytes: memory that rows may take on all servers together; the others are on the servers' disks. 0: all rows
                are in memory.
            job: in a plain script, fields of the job, such as {"update": {"durability": "EVERY_PUSH"}}.

        Raises:
            InvalidArgument: a parameter is not f32 on the CPU, an option is wrong, or the ranks differ in any of these.
            Error: the job has no servers, or they cannot be reached.
        """
        if not isinstance(optimizer, Optimizer):
            raise InvalidArgument(
                f"optimizer is a {type(optimizer).__module__}.{type(optimizer).__qualname__}, but servers run the optimizer: "
                "give one of Muster's, such as muster.SGD(lr=0.1)"
            )
        self.module = module
        self._parameters: list[torch.nn.Parameter] = []
        units = _units_of(module, self._parameters)
        names = _names_of(module)
        for parameter in self._parameters:
            _check_served(names[id(parameter)], parameter)
        embeddings = _embeddings_of(module)
        if not self._parameters and not embeddings:
            raise InvalidArgument("the model has neither parameters that require gradients nor a muster.torch.Embedding")
        if not program.in_job():
            _stand_in.start(job or {})
        self._slot = program.call("info")["slot"]
        unit_of: dict[int, int] = {}
        for owned in units.values():
            for index, unit in owned.items():
                unit_of.setdefault(index, unit)
        schema = {
            "tensors": [
                {
                    "name": names[id(parameter)],
                    "shape": list(parameter.shape),
                    "unit": unit_of[index],
                    "initializer": {"kind": "CONSTANT"},
                    "weight_decay": True,
                }
                for index, parameter in enumerate(self._parameters)
            ],
            "sparse": [
                {"name": name, "dim": each.dim, "initializer": _initializer(each.std), "weight_decay": True}
                for name, each in embeddings.items()
            ],
            "optimizer": optimizer.fields(),
            "seed": seed,
            "sparse_options": {"cache_bytes": cache_bytes},
        }
        values = [each.detach().contiguous() for each in self._parameters]
        update = _update_of(staleness, deterministic)
        self._servers = Servers(schema, update, [each.data_ptr() for each in values])
        self._units = len(set(unit_of.values()))
        self._acquired = [False] * self._units
        self._is_accumulating = False
        # Units that a module's call showed to be in use; those of the first step without one may be used in other ways.
        self._called: set[int] | None = set()
        self._uncalled: list[int] = []
        self._at_clock = self._servers.clock()
        self._view_parameters()
        self.synchronize()
        self._add_hooks(units)
        for table, each in enumerate(embeddings.values()):
            object.__setattr__(each, "_served", self)
            each._table = table

    @property
    def clock(self) -> int:
        """The number of steps that this rank has ended: where its loop goes on."""
        return self._at_clock

    def step(self) -> None:
        """Ends the step: returns when servers have all of this rank's gradients, and clears them in the model.

        The next step's parameters are then on their way; a module's forward waits for its own.
        """
        self._servers.step()
        self._at_clock += 1
        self._acquired = [False] * self._units
        for parameter in self._parameters:
            parameter.grad = None
        if self._called is not None:
            self._uncalled = [unit for unit in range(self._units) if unit not in self._called]
            self._called = None

    def synchronize(self) -> None:
        """Waits until all of the model's parameters have the values of this step; needed only to read them by hand."""
        for unit in range(self._units):
            self._acquire(unit)

    @contextlib.contextmanager
    def accumulate(self) -> Iterator[None]:
        """Lets gradients of backward passes add up in the model, to be pushed by the first backward after the block."""
        self._is_accumulating = True
        try:
            yield
        finally:
            self._is_accumulating = False

    @contextlib.contextmanager
    def checkpoint(self, *, timeout: float = 600.0) -> Iterator[pathlib.Path]:
        """Makes a checkpoint of the servers' tables at this step, and of the files that are written into the folder.

        All ranks have to make it, between the same two steps. A rank may write files of its own state, under a name of its
        own, or none. The end of the block blocks until the coordinator has committed all of it. If one rank is lost, all go on
        from there: `muster.resume()` shows the files, and `clock` is the step.

        Args:
            timeout: most seconds from the block's end until all ranks have ended this step and servers have written their part.
                With staleness 0 the block begins once all ranks have ended the step, for which they have any time.

        Raises:
            Error: with the code FAILED_PRECONDITION, it cannot be written now; the program may go on. With the code
                DEADLINE_EXCEEDED, a rank or a server takes longer than `timeout`; the program has to end, and starts again.
        """
        self.synchronize()
        with program.begun_checkpoint(self.clock) as folder:
            yield folder
            cut = self._servers.cut(timeout)
        # One slot tells of the servers' files.
        program.call("commit_checkpoint", step=self.clock, served=cut if self._slot == 0 else {})

    def _view_parameters(self) -> None:
        """Puts the parameters where servers write them."""
        for index, parameter in enumerate(self._parameters):
            # Not a buffer of Python's: a graph that an exception leaves behind frees it when there is no interpreter any more.
            parameter.data = torch.utils.dlpack.from_dlpack(self._servers.parameter(index))

    def _add_hooks(self, units: Mapping[torch.nn.Module, Mapping[int, int]]) -> None:
        for owner, owned in units.items():
            needed = sorted(set(owned.values()))
            owner.register_forward_pre_hook(lambda *_, needed=needed: self._enter(needed))
        # Whatever reads a state reads this step's.
        self.module._register_state_dict_hook(lambda *_: self.synchronize())
        # Autograd adds a gradient up in a node of its own, after which it is complete for the pass.
        self._accumulators = []
        for index, parameter in enumerate(self._parameters):
            with torch.enable_grad():
                node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
            node.register_hook(lambda *_, index=index: self._push(index))
            self._accumulators.append(node)

    def _acquire(self, unit: int) -> None:
        if not self._acquired[unit]:
            self._servers.acquire(unit)
            self._acquired[unit] = True

    def _enter(self, needed: list[int]) -> None:
        """Waits for what the forward of a module reads."""
        if self._called is not None:
            self._called.update(needed)
        for unit in self._uncalled:
            self._acquire(unit)
        for unit in needed:
            self._acquire(unit)

    def _push(self, index: int) -> None:
        """Pushes a parameter's gradient."""
        gradient = self._parameters[index].grad
        if self._is_accumulating or gradient is None:
            return
        if gradient.layout != torch.strided or gradient.dtype != torch.float32:
            raise InvalidArgument(
                f"the gradient of parameter {index} is {gradient.dtype}, {gradient.layout}; servers take dense f32 (for tables "
                "of rows there is muster.torch.Embedding)"
            )
        gradient = gradient.contiguous()
        self._servers.gradient(index, gradient.data_ptr())

    def _look_up(self, table: int, keys: torch.Tensor, rows: torch.Tensor, trains: bool) -> int:
        return self._servers.look_up(table, keys.data_ptr(), keys.numel(), rows.data_ptr(), trains)

    def _row_gradients(self, number: int, gradients: torch.Tensor) -> None:
        self._servers.row_gradients(number, gradients.data_ptr(), self._is_accumulating)


def _names_of(module: torch.nn.Module) -> dict[int, str]:
    """Returns the parameters' names by id."""
    return {id(parameter): name for name, parameter in module.named_parameters()}


def _units_of(
    module: torch.nn.Module, parameters: list[torch.nn.Parameter]
) -> dict[torch.nn.Module, dict[int, int]]:
    """Returns, by module, the parameters that it has itself, by number, each with its unit; appends the parameters to a list.

    A unit is what one module has that none before it had, and what is pulled and pushed as a whole.
    """
    numbers: dict[int, tuple[int, int]] = {}
    units: dict[torch.nn.Module, dict[int, int]] = {}
    unit = 0
    for owner in module.modules():
        owned: dict[int, int] = {}
        is_new = False
        for parameter in owner.parameters(recurse=False):
            if not parameter.requires_grad or parameter.numel() == 0:
                continue
            if id(parameter) not in numbers:
                numbers[id(parameter)] = (len(parameters), unit)
                parameters.append(parameter)
                is_new = True
            index, its_unit = numbers[id(parameter)]
            owned[index] = its_unit
        if owned:
            units[owner] = owned
        unit += is_new
    return units


def _embeddings_of(module: torch.nn.Module) -> dict[str, Embedding]:
    """Returns the tables by name.

    Raises:
        InvalidArgument: one has servers already.
    """
    found: dict[str, Embedding] = {}
    for name, each in module.named_modules():
        if not isinstance(each, Embedding):
            continue
        name = name or "embedding"
        if each._served is not None:
            raise InvalidArgument(f"{name} belongs to another ParameterServer")
        found[name] = each
    return found


def _check_served(name: str, parameter: torch.nn.Parameter) -> None:
    if parameter.dtype != torch.float32 or parameter.device.type != "cpu" or parameter.layout != torch.strided:
        raise InvalidArgument(
            f"parameter {name} is {parameter.dtype} on {parameter.device}; servers take dense float32 on the CPU"
        )


def _initializer(std: float) -> dict[str, Any]:
    return {"kind": "NORMAL", "scale": std} if std else {"kind": "CONSTANT"}


def _update_of(staleness: float, deterministic: bool) -> dict[str, Any]:
    """Returns fields of UpdateSpec.

    Raises:
        InvalidArgument: the staleness is no number of steps.
    """
    if not staleness >= 0 or (not math.isinf(staleness) and staleness != int(staleness)):
        raise InvalidArgument(f"staleness is {staleness}; it must be a number of steps: 0 (BSP), more (SSP) or math.inf (ASP)")
    bound: dict[str, Any] = {"unlimited_staleness": True} if math.isinf(staleness) else {"staleness_bound": int(staleness)}
    return {**bound, "deterministic": deterministic}
