"""Parameters of PyTorch models on Muster's servers (docs/python.md)."""

from __future__ import annotations

import contextlib
import math
import pathlib
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from muster import _stand_in, program
from muster._servers import Servers
from muster.errors import Error, InvalidArgument
from muster.optimizers import Optimizer
from muster.torch._embedding import embeddings_of
from muster.torch._served_module import ServedModule

# The one of this process, while it lives.
_made: weakref.ref[ParameterServer] | None = None


class ParameterServer:
    """Trains a model whose parameters, and the rows of its `Embedding`s, are on servers.

        served = muster.torch.ParameterServer(model, optimizer=muster.Adagrad(lr=0.02), staleness=4)
        for step in range(served.clock, steps):
            loss(model(x), y).backward()
            served.step()

    What is in the parameters' `grad` at `step()` counts, once, whatever put it there; parameters without one are left alone,
    as PyTorch's optimizers do. Each step's gradient is the mean of the ranks' gradients, as with DistributedDataParallel; the
    optimizer runs on the servers. Parameters are on their way after `step()`; whoever reads one through the model waits for
    it. All ranks make it with the same model, and begin with the values of rank 0. Buffers, such as BatchNorm's, and
    parameters that require no gradient stay with each rank.

    In a job it takes the job's servers (`update: {dense: PARAMETER_SERVER}`). In a plain script it submits a job to the cluster
    that `muster up --allow-programs` started, which lasts as long as the script.

    Attributes:
        module: the model. Its parameters' values lie where servers write them, and only servers change them.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        optimizer: Optimizer,
        *,
        staleness: float = 0,
        deterministic: bool = False,
        clip: float | None = None,
        push: str = "step",
        seed: int = 0,
        cache_bytes: int = 0,
        job: Mapping[str, Any] | None = None,
    ) -> None:
        """Blocks until the servers have the model.

        Args:
            staleness: number of steps that the fastest rank may be ahead of the slowest: 0 is BSP, more is SSP, math.inf is
                ASP.
            deterministic: ranks' gradients are summed in one order, so that runs repeat bit for bit. Needs staleness 0.
            clip: most that the norm of each step's whole gradient may be, the mean of the ranks'; a longer one is shortened
                to it. Needs staleness 0. None: no limit.
            push: "step" sends gradients in `step()`. "backward" sends each as soon as the backward pass has it; then a
                step cannot be dropped, and a gradient that is changed before `step()` is an error.
            seed: of the rows' first values.
            cache_bytes: memory that rows may take on all servers together; the others are on the servers' disks. 0: all rows
                are in memory.
            job: in a plain script, fields of the job, such as {"update": {"durability": "EVERY_PUSH"}}.

        Raises:
            InvalidArgument: a parameter is not f32 on the CPU, an option is wrong, or the ranks differ in any of these.
            Error: the job has no servers, or they cannot be reached; or the process has a ParameterServer already.
        """
        if not isinstance(optimizer, Optimizer):
            raise InvalidArgument(
                f"optimizer is a {type(optimizer).__module__}.{type(optimizer).__qualname__}, but servers run the optimizer: "
                "give one of Muster's, such as muster.SGD(lr=0.1)"
            )
        if push not in ("step", "backward"):
            raise InvalidArgument(f'push is {push!r}; it must be "step" or "backward"')
        update = _update_of(staleness, deterministic)
        clipping = _clipping_of(clip, staleness)
        self.module = module
        self._model = ServedModule(module)
        embeddings = embeddings_of(module)
        if not self._model.parameters and not embeddings:
            raise InvalidArgument("the model has neither parameters that require gradients nor a muster.torch.Embedding")
        _check_only()
        if not program.in_job():
            _stand_in.start(job or {})
        self._slot = program.call("info")["slot"]
        schema = {
            "tensors": [
                {"name": name, "shape": list(each.shape), "initializer": {"kind": "CONSTANT"}, "weight_decay": True}
                for name, each in zip(self._model.names, self._model.parameters)
            ],
            "sparse": [
                {"name": name, "dim": each.dim, "initializer": _initializer(each.std), "weight_decay": True}
                for name, each in embeddings.items()
            ],
            "optimizer": optimizer.fields(),
            "clipping": clipping,
            "seed": seed,
            "sparse_options": {"cache_bytes": cache_bytes},
        }
        values = [each.detach().contiguous() for each in self._model.parameters]
        self._servers = Servers(schema, update, [each.data_ptr() for each in values])
        self._acquired = [False] * len(values)
        self._pushes_in_backward = push == "backward"
        self._is_accumulating = False
        # By parameter, what was pushed in this step, and its version then.
        self._pushed: dict[int, tuple[torch.Tensor, int]] = {}
        self._at_clock = self._servers.clock()
        self._view_parameters()
        self.synchronize()
        self._model.watch(self._acquire)
        if self._pushes_in_backward:
            self._add_hooks()
        for table, each in enumerate(embeddings.values()):
            object.__setattr__(each, "_served", self)
            each._table = table
        global _made
        _made = weakref.ref(self)

    @property
    def clock(self) -> int:
        """The number of steps that this rank has ended: where its loop goes on."""
        return self._at_clock

    def step(self) -> None:
        """Ends the step: returns when servers have all of this rank's gradients, and clears them in the model.

        The next step's parameters are then on their way; whoever reads one through the model waits for it.

        Raises:
            NotFinite: a gradient is not finite; nothing was sent. `zero_grad()` drops the step, which can be made anew.
            Error: a parameter was changed by hand, or a gradient after it was sent.
            InvalidArgument: the model has a parameter that learns and is not on servers, or a gradient that they cannot take.
        """
        self._model.check()
        self._check_pushed()
        gradients = [self._gradient(number) for number in range(len(self._model.parameters))]
        self._servers.step([0 if each is None else each.data_ptr() for each in gradients])
        self._at_clock += 1
        self._acquired = [False] * len(self._acquired)
        self._pushed.clear()
        for parameter in self._model.parameters:
            parameter.grad = None

    def zero_grad(self) -> None:
        """Drops the step's gradients, those of rows as well, so that it can be made anew.

        Raises:
            Error: FAILED_PRECONDITION, some have been pushed, as `push="backward"` has it.
        """
        self._servers.drop()
        for parameter in self._model.parameters:
            parameter.grad = None

    def synchronize(self) -> None:
        """Waits until all of the model's parameters have the values of this step; needed only by who keeps tensors of them."""
        for number in range(len(self._acquired)):
            self._acquire(number)

    @contextlib.contextmanager
    def accumulate(self) -> Iterator[None]:
        """With `push="backward"`: lets gradients of backward passes add up in the model, to be pushed after the block.

        With `push="step"` they add up in any case.
        """
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
        for number, parameter in enumerate(self._model.parameters):
            # Not a buffer of Python's: a graph that an exception leaves behind frees it when there is no interpreter any more.
            parameter.data = torch.utils.dlpack.from_dlpack(self._servers.parameter(number))

    def _add_hooks(self) -> None:
        # Autograd adds a gradient up in a node of its own, after which it is complete for the pass.
        self._accumulators = []
        for number, parameter in enumerate(self._model.parameters):
            with torch.enable_grad():
                node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
            node.register_hook(lambda *_, number=number: self._push(number))
            self._accumulators.append(node)

    def _acquire(self, number: int) -> None:
        if not self._acquired[number]:
            self._servers.acquire(number)
            self._acquired[number] = True

    def _gradient(self, number: int) -> torch.Tensor | None:
        """Returns a parameter's gradient as servers take it; None: it has none."""
        gradient = self._model.parameters[number].grad
        if gradient is None:
            return None
        if gradient.layout != torch.strided or gradient.dtype != torch.float32:
            raise InvalidArgument(
                f"the gradient of {self._model.names[number]} is {gradient.dtype}, {gradient.layout}; servers take dense f32 (for "
                "tables of rows there is muster.torch.Embedding)"
            )
        return gradient.detach().contiguous()

    def _push(self, number: int) -> None:
        """Pushes a parameter's gradient ahead of the step's end."""
        gradient = self._gradient(number)
        if self._is_accumulating or gradient is None:
            return
        self._servers.push(number, gradient.data_ptr())
        grad = self._model.parameters[number].grad
        self._pushed[number] = (grad, grad._version)

    def _check_pushed(self) -> None:
        for number, (gradient, version) in self._pushed.items():
            if self._model.parameters[number].grad is not gradient or gradient._version != version:
                raise Error(
                    "FAILED_PRECONDITION",
                    f"the gradient of {self._model.names[number]} was changed or dropped after it was pushed in the backward pass "
                    'of this step; make the ParameterServer with push="step", or for clipping by the norm with clip=',
                )

    def _look_up(self, table: int, keys: torch.Tensor, rows: torch.Tensor, trains: bool) -> int:
        return self._servers.look_up(table, keys.data_ptr(), keys.numel(), rows.data_ptr(), trains)

    def _row_gradients(self, look_up: int, gradients: torch.Tensor) -> None:
        now = self._pushes_in_backward and not self._is_accumulating
        self._servers.row_gradients(look_up, gradients.data_ptr(), now)


def _check_only() -> None:
    """Checks that this process has no ParameterServer."""
    if _made is not None and _made() is not None:
        raise Error(
            "FAILED_PRECONDITION",
            "this program has a ParameterServer already; give it all models, as torch.nn.ModuleList([first, second]), since a step "
            "leaves alone what has no gradient",
        )


def _initializer(std: float) -> dict[str, Any]:
    return {"kind": "NORMAL", "scale": std} if std else {"kind": "CONSTANT"}


def _clipping_of(clip: float | None, staleness: float) -> dict[str, Any]:
    """Returns fields of ClippingSpec.

    Raises:
        InvalidArgument: the norm cannot be, or there is no whole gradient.
    """
    if clip is None:
        return {}
    if not clip > 0 or math.isinf(clip):
        raise InvalidArgument(f"clip is {clip}; it must be a positive norm")
    if staleness != 0:
        raise InvalidArgument("clip needs staleness 0: only there ranks make one gradient together")
    return {"by_global_norm": clip}


def _update_of(staleness: float, deterministic: bool) -> dict[str, Any]:
    """Returns fields of UpdateSpec.

    Raises:
        InvalidArgument: the staleness is no number of steps.
    """
    if not staleness >= 0 or (not math.isinf(staleness) and staleness != int(staleness)):
        raise InvalidArgument(f"staleness is {staleness}; it must be a number of steps: 0 (BSP), more (SSP) or math.inf (ASP)")
    bound: dict[str, Any] = {"unlimited_staleness": True} if math.isinf(staleness) else {"staleness_bound": int(staleness)}
    return {**bound, "deterministic": deterministic}
