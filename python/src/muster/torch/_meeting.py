"""The meeting of a group's ranks, which PyTorch's store brings together. No coordinator is asked."""

from __future__ import annotations

import hashlib
import itertools
import os
import secrets
import socket
from typing import Any

import torch.distributed as dist

from muster import _native, program
from muster.errors import CollectiveError, InvalidArgument

_SECRET_BYTES = 32
_first_names = itertools.chain(["world"], (f"group {number}" for number in itertools.count(1)))


def meet(store: dist.Store, rank: int, size: int, timeout: float) -> tuple[_native.Group, str]:
    """Connects to the other ranks: each leaves its address in the store, and the first a name and a secret.

    In a job, the group's secret is also made of one that the store never has: that of the processes which this round of the
    job started. So where the job's workers have certificates, nobody who listens to the store can read the group's traffic.

    Returns:
        The group, and its name.

    Raises:
        InvalidArgument: the ranks were given different numbers of ranks.
        CollectiveError: a rank did not come in time, or could not be reached.
    """
    options, round_secret = _how_to_listen()
    endpoint = _native.Endpoint(options)
    name = next(_first_names)
    if rank == 0:
        store.set("group", f"{secrets.token_hex(_SECRET_BYTES)} {name}")
    store.set(f"address/{rank}", f"{size} {endpoint.address().hex()}")
    told_secret, name = _told(store, "group", 0, size).split(" ", 1)
    secret = hashlib.sha256(round_secret + bytes.fromhex(told_secret)).digest()
    addresses = []
    for each in range(size):
        told_size, address = _told(store, f"address/{each}", each, size).split()
        if int(told_size) != size:
            raise InvalidArgument(
                f'group "{name}" has {size} ranks on rank {rank}, but {told_size} on rank {each}; every rank needs the same '
                "world_size"
            )
        addresses.append(bytes.fromhex(address))
    # An endpoint serves this group alone, so any number does.
    return endpoint.connect(name, 1, secret, addresses, rank, timeout), name


def _told(store: dist.Store, key: str, rank: int, size: int) -> str:
    """Returns what a rank left in the store."""
    try:
        return str(store.get(key).decode())
    except RuntimeError as error:
        raise CollectiveError(
            "DEADLINE_EXCEEDED", f"rank {rank} of {size} has not come; are there {size} processes? ({error})"
        ) from None


def _how_to_listen() -> tuple[_native.EndpointOptions, bytes]:
    """Returns the options of the endpoint, and the secret of the round; b"" if there is none."""
    if not program.in_job():
        return _native.EndpointOptions(host=_own_host()), b""
    answer: dict[str, Any] = program.call("endpoint")
    del answer["ok"]
    round_secret = bytes.fromhex(answer.pop("round_secret"))
    return _native.EndpointOptions(**answer), round_secret


def _own_host() -> str:
    """Returns the address by which other machines reach this one: that by which it reaches rank 0's machine."""
    master = os.environ.get("MASTER_ADDR", "127.0.0.1")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(master, 1, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            # Sends nothing.
            probe.connect(address)
            return str(probe.getsockname()[0])
    except OSError:
        return "127.0.0.1"
