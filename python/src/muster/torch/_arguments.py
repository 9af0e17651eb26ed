"""What PyTorch's calls give to the backend "muster": checks, and the forms in which Muster's collectives take it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from muster._native import DType, Reduction
from muster.errors import InvalidArgument

DTYPES = {
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
REDUCED_AS = {torch.int8: torch.int32, torch.int16: torch.int32}


def make_options(kind: Any, **values: Any) -> Any:
    """Returns one of PyTorch's objects of options."""
    options = kind()
    for name, value in values.items():
        setattr(options, name, value)
    return options


def only(given: Sequence[Any]) -> Any:
    """Returns the only element: PyTorch's lists have one for each device of a rank."""
    if len(given) != 1:
        raise InvalidArgument(f"a call of the backend muster has one tensor, or list of them, a rank; this has {len(given)}")
    return given[0]


def reduction_of(opts: Any) -> Reduction:
    """Returns the reduction that PyTorch's options, or its operation itself, name."""
    op = dist.ReduceOp.SUM if opts is None else getattr(opts, "reduceOp", opts)
    name = getattr(op, "op", op).name
    if name not in _REDUCTIONS:
        raise InvalidArgument(f"{name} is not known to the backend muster; expected one of {', '.join(_REDUCTIONS)}")
    return _REDUCTIONS[name]


def in_order(tensor: Tensor) -> Tensor:
    """Returns the tensor, or a copy if its memory is not its value, element after element."""
    if tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg():
        return tensor
    return tensor.resolve_conj().resolve_neg().contiguous()


def check_tensor(tensor: Tensor) -> None:
    if not tensor.is_cpu or tensor.layout != torch.strided:
        what = f"{tensor.layout} tensor on {tensor.device}".removeprefix("torch.")
        raise InvalidArgument(f"the backend muster takes dense tensors on the processor; this is a {what}")


def check_written(tensor: Tensor) -> None:
    """Checks a tensor that a call writes."""
    if any(size > 1 and stride == 0 for size, stride in zip(tensor.shape, tensor.stride())):
        raise InvalidArgument(
            f"several elements of the {tuple(tensor.shape)} tensor are one place in memory (expand), which no call can "
            "fill; give a clone"
        )


def copy(source: Tensor, target: Tensor) -> None:
    with torch.no_grad():
        target.copy_(source)


def spread(flat: Any, parts: Sequence[Tensor]) -> None:
    """Copies the rows of an array into tensors."""
    for row, part in zip(flat, parts):
        copy(row.view(part.shape), part)
