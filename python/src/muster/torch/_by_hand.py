"""Says how to start a script of several processes that was started by hand, where PyTorch names a variable alone."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from typing import Any

from muster.errors import InvalidArgument

_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def explain_start() -> None:
    """Has init_process_group, without these variables and without arguments in their place, raise an error that says what to do.

    PyTorch has no public way to do that. Where it does not keep its ways to meet as it does today, its own error stays.
    """
    rendezvous = importlib.import_module("torch.distributed.rendezvous")
    handlers = getattr(rendezvous, "_rendezvous_handlers", None)
    if not isinstance(handlers, dict) or "env" not in handlers:
        return
    meet = handlers["env"]

    def meet_or_explain(*arguments: Any, **options: Any) -> Iterator[Any]:
        try:
            yield from meet(*arguments, **options)
        except ValueError as error:
            missing = [each for each in _VARIABLES if not os.environ.get(each)]
            if not missing or "not set" not in str(error):
                raise
            raise InvalidArgument(_how_to_start(missing)) from None

    handlers["env"] = meet_or_explain


def _how_to_start(missing: list[str]) -> str:
    script = os.path.basename(sys.argv[0]) or "train.py"
    return (
        f"{script} was started by hand, so nothing says which of how many processes this is: {', '.join(missing)} "
        f"{'is' if len(missing) == 1 else 'are'} not set. Start it as a job: `muster submit job.yaml --watch`, where job.yaml has "
        f"`workers: 2` and `model: {{program: {{command: [python3, {os.path.abspath(sys.argv[0] or script)}], memory_bytes: 2GiB}}}}`, on a "
        f"cluster of `muster up --allow-programs`. Or start it by `torchrun --nproc_per_node 2 {script}`. Or start each process "
        f"with RANK=0, 1, …, WORLD_SIZE=2, MASTER_ADDR=127.0.0.1 and MASTER_PORT=29500 (docs/programs.md)"
    )
