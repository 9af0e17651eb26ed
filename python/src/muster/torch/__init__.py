"""Muster under PyTorch. Importing this registers the backend "muster" of torch.distributed (docs/python.md):

    import muster.torch
    torch.distributed.init_process_group("muster")

Whatever the installed PyTorch offers on CPU tensors, such as DistributedDataParallel, then runs on Muster's collectives.
`ParameterServer` and `Embedding` put a model's parameters on Muster's servers instead.
"""

import torch.distributed

from muster.torch._by_hand import explain_start
from muster.torch._embedding import Embedding
from muster.torch._parameter_server import ParameterServer
from muster.torch._process_group import ProcessGroup

BACKEND = "muster"

if not hasattr(torch.distributed.Backend, BACKEND.upper()):
    torch.distributed.Backend.register_backend(BACKEND, ProcessGroup)
    explain_start()

__all__ = ["BACKEND", "Embedding", "ParameterServer", "ProcessGroup"]
