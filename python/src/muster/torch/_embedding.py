"""Tables of rows on Muster's servers, as a PyTorch module (docs/python.md)."""

from __future__ import annotations

from typing import Any

import torch

from muster.errors import Error, InvalidArgument


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


def embeddings_of(module: torch.nn.Module) -> dict[str, Embedding]:
    """Returns the tables of a model by name.

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
