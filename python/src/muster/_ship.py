"""Packs the folder of a job's program, to be sent with the job: the same bytes as client/job/pack_folder.h gives."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
import stat
import struct
from typing import NamedTuple

from muster.errors import InvalidArgument, NotFound

IGNORE_FILE = ".musterignore"
# As in common/program/folder_archive.h.
_MOST_BYTES = 256 << 20
_MOST_ENTRIES = 10000
# Files and folders after which the walk ends, so that the error can name the largest.
_MOST_SEEN = 10 * _MOST_ENTRIES
_ENTRY_BYTES = 16
_LARGEST_SHOWN = 5


class PackedFolder(NamedTuple):
    """A folder as it is sent. The same content has the same name."""

    archive: bytes
    name: str
    files: int


@dataclasses.dataclass(frozen=True)
class _Entry:
    """A folder, file or executable file: `kind` is its byte in the archive."""

    path: bytes
    kind: bytes
    size: int


@dataclasses.dataclass(frozen=True)
class _Rule:
    """A line of .musterignore (client/job/ignore_rules.h)."""

    pattern: re.Pattern[bytes]
    is_path: bool
    folders_alone: bool

    def fits(self, path: bytes, is_folder: bool) -> bool:
        if self.folders_alone and not is_folder:
            return False
        return self.pattern.fullmatch(path if self.is_path else path.rpartition(b"/")[2]) is not None


def pack_folder(path: str) -> PackedFolder:
    """Returns the folder with all regular files and folders in it, but for what is never sent and .musterignore names.

    Raises:
        NotFound: there is no such folder.
        InvalidArgument: it has a link, pipe or device, or is too large; or .musterignore is wrong. Says what to do.
    """
    if not os.path.isdir(path):
        said = "; model.program.working_folder names the folder that is sent with the job"
        if os.path.exists(path):
            raise InvalidArgument(f"{path} is no folder{said}")
        raise NotFound(f"there is no folder {path} on this machine{said}")
    entries: list[_Entry] = []
    _list(path, b"", _rules_of(path), entries)
    size = sum(_ENTRY_BYTES + len(each.path) + each.size for each in entries)
    if len(entries) > _MOST_ENTRIES or size > _MOST_BYTES:
        raise _too_large(path, entries, size)
    parts = [b"MUSTER FOLDER 1\n"]
    for each in sorted(entries, key=lambda entry: entry.path):
        parts.append(each.kind + struct.pack("<I", len(each.path)) + each.path)
        if each.kind != b"d":
            content = _read(os.path.join(os.fsencode(path), each.path))
            parts += [struct.pack("<Q", len(content)), content]
    parts.append(b"e")
    archive = b"".join(parts)
    if len(archive) > _MOST_BYTES:
        raise InvalidArgument(
            f"{path} grew while it was read, beyond {_MOST_BYTES >> 20} MiB; name what is being written in "
            f"{os.path.join(path, IGNORE_FILE)}"
        )
    files = sum(each.kind != b"d" for each in entries)
    return PackedFolder(archive, "sha256-" + hashlib.sha256(archive).hexdigest(), files)


def _list(root: str, prefix: bytes, rules: list[_Rule], entries: list[_Entry]) -> None:
    """Appends what the folder `prefix` has, and the folders in it."""
    folder = os.path.join(os.fsencode(root), prefix)
    try:
        names = os.listdir(folder)
    except OSError as error:
        raise InvalidArgument(f"cannot list {os.fsdecode(folder)}: {error.strerror}") from None
    for name in names:
        if len(entries) >= _MOST_SEEN:
            return
        if name in (b".git", b"__pycache__"):
            continue
        path = prefix + name
        whole = os.path.join(folder, name)
        mode = os.lstat(whole)
        is_folder = stat.S_ISDIR(mode.st_mode)
        if any(rule.fits(path, is_folder) for rule in rules):
            continue
        if is_folder:
            # Environments are made anew on every machine, and folders of clusters hold tokens.
            if any(os.path.exists(os.path.join(whole, mark)) for mark in (b"pyvenv.cfg", b"cluster.json")):
                continue
            entries.append(_Entry(path, b"d", 0))
            _list(root, path + b"/", rules, entries)
        elif stat.S_ISREG(mode.st_mode):
            entries.append(_Entry(path, b"x" if mode.st_mode & stat.S_IXUSR else b"f", mode.st_size))
        else:
            raise _refused(root, os.fsdecode(whole), mode.st_mode)


def _refused(root: str, path: str, mode: int) -> InvalidArgument:
    why = "is no regular file, so it cannot be sent; remove it"
    if stat.S_ISLNK(mode):
        why = "is a symbolic link, and what it leads to need not be on the workers; put the file or folder itself there"
    return InvalidArgument(f"{path} {why}, or name it in {os.path.join(root, IGNORE_FILE)}")


def _too_large(root: str, entries: list[_Entry], size: int) -> InvalidArgument:
    largest = sorted(entries, key=lambda entry: -entry.size)[:_LARGEST_SHOWN]
    shown = ", ".join(f"{os.fsdecode(each.path)} ({each.size / (1 << 20):.1f} MiB)" for each in largest)
    least = "at least " if len(entries) >= _MOST_SEEN else ""
    return InvalidArgument(
        f"{root} has {least}{len(entries)} files and folders with {size / (1 << 20):.1f} MiB; at most {_MOST_ENTRIES} with "
        f"{_MOST_BYTES >> 20} MiB are sent with a job. The largest: {shown}. Name what the program does not need in "
        f"{os.path.join(root, IGNORE_FILE)}, and leave data where the workers can read them"
    )


def _rules_of(folder: str) -> list[_Rule]:
    path = os.path.join(folder, IGNORE_FILE)
    if not os.path.lexists(path):
        return []
    rules = [_rule_of(line.strip(), f"{path}:{number}") for number, line in enumerate(_read(os.fsencode(path)).split(b"\n"), 1)]
    return [each for each in rules if each is not None]


def _rule_of(line: bytes, where: str) -> _Rule | None:
    if not line or line.startswith(b"#"):
        return None
    if line.startswith(b"!") or b"**" in line or b"[" in line or b"\\" in line:
        raise InvalidArgument(
            f'{where}: "{os.fsdecode(line)}" is no pattern; only * and ? have a meaning here: no ! at the beginning, no **, [ '
            "or backslash"
        )
    folders_alone = line.endswith(b"/")
    pattern = line[:-1] if folders_alone else line
    is_path = b"/" in pattern
    pattern = pattern[1:] if pattern.startswith(b"/") else pattern
    made = re.escape(pattern).replace(rb"\*", rb"[^/]*").replace(rb"\?", rb"[^/]")
    return _Rule(re.compile(made, re.DOTALL), is_path, folders_alone)


def _read(path: bytes) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise InvalidArgument(f"cannot read {os.fsdecode(path)}: {error.strerror}") from None
