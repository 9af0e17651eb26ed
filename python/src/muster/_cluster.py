"""Finds the cluster that a client connects to."""

from __future__ import annotations

import dataclasses
import fcntl
import hmac
import json
import os
import struct

from muster.errors import InvalidArgument, Unreachable
from muster.v1 import job_service_pb2

_HOW_TO_NAME_ONE = 'start one with `muster up`, or name one: muster.connect("HOST:PORT")'


@dataclasses.dataclass(frozen=True)
class Tls:
    """The files of a cluster with certificates (docs/operations.md): paths of PEM files."""

    authority: str
    certificate: str
    key: str


@dataclasses.dataclass(frozen=True)
class Cluster:
    """Where a cluster is, and what opens it.

    Attributes:
        token_file: holds the token with which programs are submitted as jobs; there may be no such file.
    """

    address: str
    tls: Tls | None = None
    token_file: str | None = None

    def program_proof(self, request: job_service_pb2.SubmitJobRequest) -> bytes:
        """Returns the proof of a request to submit a program (common/program/program_proof.h); b"" if there is no token.

        Raises:
            InvalidArgument: the token's file cannot be read.
        """
        token = self._program_token()
        if not token:
            return b""
        program = request.spec.model.program
        texts = ["submit", request.request_id, program.working_folder, str(len(program.command)), *program.command]
        texts.append(str(len(program.environment)))
        for name in sorted(program.environment, key=str.encode):
            texts += [name, program.environment[name]]
        texts.append(request.spec.resume_from)
        if program.shipped:
            texts.append(program.shipped)
        return _proof(token, texts)

    def shipped_proof(self, folder: job_service_pb2.ShippedFolder) -> bytes:
        """Returns the proof of a folder that is sent with a program; otherwise as `program_proof`."""
        token = self._program_token()
        return _proof(token, ["ship", folder.name, str(folder.bytes)]) if token else b""

    def _program_token(self) -> str:
        if self.token_file is None:
            return ""
        try:
            with open(self.token_file, encoding="utf-8") as file:
                return file.read().strip()
        except FileNotFoundError:
            return ""
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidArgument(f"cannot read the token of programs in {self.token_file}: {error}") from None


def _proof(token: str, texts: list[str]) -> bytes:
    encoded = [each.encode() for each in texts]
    return hmac.digest(token.encode(), b"".join(struct.pack("<Q", len(each)) + each for each in encoded), "sha256")


def find_cluster(address: str | None, folder: str | None, tls: Tls | None, token_file: str | None) -> Cluster:
    """Returns the cluster that these name; see `connect`.

    Raises:
        Unreachable: no cluster is named, or the one in the folder does not run.
    """
    if address is None and folder is None:
        address = os.environ.get("MUSTER_COORDINATOR") or None
    token_file = token_file or os.environ.get("MUSTER_PROGRAM_TOKEN_FILE") or None
    if address is not None:
        return Cluster(address, tls, token_file)
    folder = folder or _current_folder()
    if not folder:
        raise Unreachable(f"no cluster was named or started here; {_HOW_TO_NAME_ONE}")
    return _cluster_of(folder, tls, token_file or os.path.join(folder, "program.token"))


def read_tls(tls: Tls) -> tuple[bytes, bytes, bytes]:
    """Returns what the three files hold: authority, key and certificate.

    Raises:
        InvalidArgument: a file cannot be read.
    """
    contents = []
    for path in (tls.authority, tls.key, tls.certificate):
        try:
            with open(path, "rb") as file:
                contents.append(file.read())
        except OSError as error:
            raise InvalidArgument(f"cannot read the TLS file {path}: {error.strerror}") from None
    return contents[0], contents[1], contents[2]


def _current_folder() -> str:
    """Returns the folder of the cluster that this user started last, or ""."""
    try:
        with open(os.path.join(os.environ.get("HOME", "/tmp"), ".muster/current"), encoding="utf-8") as file:
            return file.readline().rstrip("\n")
    except OSError:
        return ""


def _cluster_of(folder: str, tls: Tls | None, token_file: str) -> Cluster:
    """Returns what `muster up` wrote into its folder."""
    starts = f"`muster up --data-dir {folder}` starts"
    try:
        with open(os.path.join(folder, "cluster.json"), encoding="utf-8") as file:
            record = json.load(file)
    except OSError:
        raise Unreachable(f"no cluster has been started in {folder}; {starts} one") from None
    except ValueError:
        record = None
    if not isinstance(record, dict):
        raise Unreachable(f"{folder}/cluster.json is damaged; remove it and run `muster up`")
    if not _is_running(folder):
        raise Unreachable(f"the cluster in {folder} is not running; {starts} it")
    files = record.get("tls")
    if tls is None and files is not None:
        tls = Tls(files["authority"], files["certificate"], files["key"])
    return Cluster(record["coordinator"], tls, token_file)


def _is_running(folder: str) -> bool:
    """Returns True if the supervisor holds its lock."""
    try:
        with open(os.path.join(folder, "lock"), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False
