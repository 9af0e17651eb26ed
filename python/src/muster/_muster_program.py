"""Runs the program `muster` for what needs more than calls of the coordinator: to generate text, to write models for others."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

from muster._cluster import Cluster
from muster.errors import Error, NotFound, error_of


def run(cluster: Cluster, words: Sequence[str]) -> dict[str, Any]:
    """Runs a command of the program for a cluster; returns what it prints with --output json.

    Raises:
        NotFound: the program is not installed.
        Error: what the command says.
    """
    done = subprocess.run(_command(cluster, words), stdin=subprocess.DEVNULL, capture_output=True)
    return _result(done.returncode, done.stdout, done.stderr)


async def run_async(cluster: Cluster, words: Sequence[str]) -> dict[str, Any]:
    """Does what `run` does, without blocking the loop. If it is cancelled, the program is killed."""
    process = await asyncio.create_subprocess_exec(
        *_command(cluster, words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        output, errors = await process.communicate()
    except BaseException:
        process.kill()
        await process.wait()
        raise
    return _result(process.returncode or 0, output, errors)


def _command(cluster: Cluster, words: Sequence[str]) -> list[str]:
    """Returns the command line; the program is the one that MUSTER_PROGRAM names, else the one in PATH."""
    named = os.environ.get("MUSTER_PROGRAM")
    program = shutil.which(named or "muster")
    if program is None:
        missing = f"MUSTER_PROGRAM is {named}, which is no program" if named else "the program muster is not in PATH"
        raise NotFound(
            f"`muster {words[0]}` is needed, and {missing}; install Muster's programs (`./muster install --prefix DIR` in a "
            "checkout, or the Debian package of `./muster package`), and put DIR/bin into PATH or name it in MUSTER_PROGRAM"
        )
    options = [f"--coordinator={cluster.address}", "--output=json"]
    if cluster.tls is not None:
        files = {"authority": cluster.tls.authority, "certificate": cluster.tls.certificate, "key": cluster.tls.key}
        options += [f"--tls-{name}={file}" for name, file in files.items()]
    return [program, *options, *words]


def _result(status: int, output: bytes, errors: bytes) -> dict[str, Any]:
    if status == 0:
        printed: dict[str, Any] = json.loads(output)
        return printed
    said = errors.decode("utf-8", "replace").strip()
    try:
        error = json.loads(said.splitlines()[-1])["error"]
    except (LookupError, TypeError, ValueError):
        raise Error("UNKNOWN", f"muster ended with status {status}: {said or 'it said nothing'}") from None
    raise error_of(error["code"], error["message"])
