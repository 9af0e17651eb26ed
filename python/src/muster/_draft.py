"""A job that is still to be submitted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Union

from muster._job_text import assign, fill, parse
from muster.errors import InvalidArgument, NotFound
from muster.v1 import job_pb2

Path = Union[str, "os.PathLike[str]"]

# Far more than any job takes.
_MOST_JOB_BYTES = 4 << 20


class JobDraft:
    """What a job is to be: a JobSpec (proto/job.proto), and ways to write it.

    Attributes:
        spec: the message itself, which may be changed.
        folder: where the job was written, which `submit(ship=True)` sends if the program has no working folder.
    """

    def __init__(self, spec: job_pb2.JobSpec | None = None) -> None:
        self.spec = job_pb2.JobSpec()
        self.folder = os.path.abspath(".")
        if spec is not None:
            self.spec.CopyFrom(spec)

    @staticmethod
    def from_file(path: Path) -> JobDraft:
        """Reads a job file in YAML, JSON or protobuf's text format (docs/job_files.md), spelled as docs/python.md says.

        Relative paths in it are relative to the file's folder.

        Raises:
            NotFound: there is no such file.
            InvalidArgument: says what is wrong, with line and column of wrong syntax.
        """
        origin = os.fspath(path)
        if os.path.isdir(origin):
            raise InvalidArgument(f"{origin} is a folder; name a job file")
        try:
            with open(origin, "rb") as file:
                data = file.read(_MOST_JOB_BYTES + 1)
        except OSError as error:
            raise NotFound(f"cannot read the job file {origin}: {error.strerror}") from None
        if len(data) > _MOST_JOB_BYTES:
            size = f"{_MOST_JOB_BYTES >> 20} MiB"
            raise InvalidArgument(f"{origin} has more than {size}, far more than a job needs; is it the right file?")
        if data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in data:
            said = "is UTF-16, as some Windows editors and shells save text; save it as UTF-8"
            raise InvalidArgument(f"{origin} {said}")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InvalidArgument(f"{origin} is not UTF-8: {error.reason} at byte {error.start}") from None
        return JobDraft.from_text(text, origin, os.path.dirname(os.path.abspath(origin)))

    @staticmethod
    def from_text(text: str, origin: str = "the text", folder: Path = ".") -> JobDraft:
        """Reads a job from a text as `from_file` does.

        Args:
            origin: the text's name in errors. Its ending says which notation the text has, if it is one of a job file's; else
                JSON begins with `{`, the text format has a line that begins with `NAME {`, and any other text is YAML.
            folder: what relative paths are relative to.
        """
        if not text.strip():
            raise InvalidArgument(f"{origin} is empty; `muster help submit` shows a job")
        draft = JobDraft()
        parse(text, origin, draft.spec)
        draft._make_paths_absolute(folder)
        draft.folder = os.path.abspath(folder)
        return draft

    @staticmethod
    def from_fields(fields: Mapping[str, object]) -> JobDraft:
        """Makes a job of fields by name, nested as in a job file: `{"workers": 2, "optimizer": {"name": "sgd"}}`."""
        draft = JobDraft()
        fill(fields, "the job", draft.spec)
        draft._make_paths_absolute(".")
        return draft

    def set(self, path: str, value: object) -> JobDraft:
        """Changes one field and returns this draft. After an error it is as it was.

        Args:
            path: as in `optimizer.learning_rate`; `model.mlp.hidden[0]` is an element of a list, where the number of
                elements appends one; `labels.team` is one name of a map.
            value: a number, text, bool, path, list or dict; None clears the field. Relative paths of files are relative to the
                working directory.

        Raises:
            InvalidArgument: there is no such field, or the value is none of its type.
        """
        # In a copy, so that an error changes nothing.
        changed = JobDraft(self.spec)
        assign(path, value, changed.spec)
        changed._make_paths_absolute(".")
        self.spec.CopyFrom(changed.spec)
        return self

    def _make_paths_absolute(self, folder: Path) -> None:
        """Makes paths of data, tokenizers, weights and a program's folder absolute, since workers run elsewhere."""

        def absolute(path: str) -> str:
            return os.path.normpath(os.path.join(os.path.abspath(folder), path)) + ("/" if path.endswith("/") else "")

        spec = self.spec
        for data in [getattr(spec, name) for name in ("data", "validation") if spec.HasField(name)]:
            reader = data.WhichOneof("reader")
            fields = getattr(data, reader) if reader else None
            for name in ("path", "images", "labels"):
                path = getattr(fields, name, "")
                if path:
                    setattr(fields, name, absolute(path))
            if reader == "sequences" and data.sequences.tokenizer not in ("", "bytes"):
                data.sequences.tokenizer = absolute(data.sequences.tokenizer)
        if spec.model.WhichOneof("model") == "transformer" and getattr(spec.model.transformer, "from"):
            setattr(spec.model.transformer, "from", absolute(getattr(spec.model.transformer, "from")))
        if spec.model.program.working_folder:
            spec.model.program.working_folder = absolute(spec.model.program.working_folder)
        if is_weights_folder(spec.initial_weights):
            spec.initial_weights = absolute(spec.initial_weights)


def is_weights_folder(name: str) -> bool:
    """Returns True if a job's `initial_weights` names a folder on this machine.

    A name that begins with "file://" is a folder that servers see and this machine does not.
    """
    return "/" in name and not name.startswith("file://")


def submitted_form(draft: JobDraft, owner: str) -> job_pb2.JobSpec:
    """Returns the message to submit: with an owner, documents kept apart unless it says otherwise, and folders checked.

    Raises:
        NotFound: `initial_weights` is a folder without a complete checkpoint.
        InvalidArgument: the job needs what only the program `muster` does.
    """
    spec = job_pb2.JobSpec()
    spec.CopyFrom(draft.spec)
    if not spec.owner:
        spec.owner = owner
    for data in (spec.data, spec.validation):
        if data.WhichOneof("reader") == "sequences" and not data.sequences.packing:
            data.sequences.packing = job_pb2.SequenceData.WITHIN_DOCUMENTS
    if is_weights_folder(spec.initial_weights):
        folder = spec.initial_weights.rstrip("/") or "/"
        if not os.path.isfile(os.path.join(folder, "MANIFEST")):
            raise NotFound(
                f'initial_weights is "{spec.initial_weights}", but {folder} holds no complete checkpoint; name a job, or a '
                "folder that `muster import` wrote"
            )
        spec.initial_weights = folder
    if spec.model.WhichOneof("model") == "transformer" and getattr(spec.model.transformer, "from"):
        raise InvalidArgument(
            f'model.transformer.from is "{getattr(spec.model.transformer, "from")}"; only the program `muster` reads a '
            "config.json: `muster plan --effective` prints the job with the fields that it gives"
        )
    return spec
