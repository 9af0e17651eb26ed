"""The optimizers that servers and workers of Muster have (common/optim/optimizer.h), for `muster.torch.ParameterServer`."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Optimizer:
    """How gradients become new parameters. `lr` is the learning rate.

    An option that is None takes its usual value, which common/optim/optimizer.h has.
    """

    lr: float

    def fields(self) -> dict[str, Any]:
        """Returns the fields of job.proto's OptimizerSpec."""
        options = dataclasses.asdict(self)
        name = _NAMES[type(self)]
        if isinstance(self, SGD):
            # Three optimizers of Muster's are one in PyTorch.
            nesterov = options.pop("nesterov")
            if self.momentum:
                name = "nesterov" if nesterov else "momentum"
            else:
                options.pop("momentum")
        if "betas" in options:
            options["beta1"], options["beta2"] = options.pop("betas")
        given = {key: value for key, value in options.items() if value is not None and key != "lr"}
        return {"name": name, "learning_rate": self.lr, **given}


@dataclasses.dataclass(frozen=True)
class SGD(Optimizer):
    """Stochastic gradient descent, as torch.optim.SGD."""

    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float | None = None


@dataclasses.dataclass(frozen=True)
class Adagrad(Optimizer):
    """Adagrad, as torch.optim.Adagrad."""

    epsilon: float | None = None
    initial_accumulator: float | None = None
    weight_decay: float | None = None


@dataclasses.dataclass(frozen=True)
class RowWiseAdagrad(Adagrad):
    """Adagrad with one accumulator for each row of an `Embedding`, which takes less memory."""


@dataclasses.dataclass(frozen=True)
class RMSprop(Optimizer):
    """RMSprop; `decay` is torch.optim.RMSprop's alpha."""

    decay: float | None = None
    epsilon: float | None = None
    weight_decay: float | None = None


@dataclasses.dataclass(frozen=True)
class Adam(Optimizer):
    """Adam, as torch.optim.Adam."""

    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float | None = None
    weight_decay: float | None = None


@dataclasses.dataclass(frozen=True)
class AdamW(Adam):
    """AdamW, as torch.optim.AdamW."""


@dataclasses.dataclass(frozen=True)
class Lion(Optimizer):
    """Lion (Chen et al., 2023): steps by the sign of the momentum, whose rate is usually a tenth of AdamW's."""

    betas: tuple[float, float] = (0.9, 0.99)
    weight_decay: float | None = None


@dataclasses.dataclass(frozen=True)
class Ftrl(Optimizer):
    """FTRL-proximal (McMahan et al., 2013), for sparse linear parts."""

    beta: float | None = None
    l1: float | None = None
    l2: float | None = None
    initial_accumulator: float | None = None


_NAMES = {
    SGD: "sgd",
    Adagrad: "adagrad",
    RowWiseAdagrad: "row_wise_adagrad",
    RMSprop: "rmsprop",
    Adam: "adam",
    AdamW: "adamw",
    Lion: "lion",
    Ftrl: "ftrl",
}
