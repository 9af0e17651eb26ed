"""Jobs that are made of another job's checkpoint: its evaluation, and its continuation."""

from __future__ import annotations

import dataclasses
import math
import os
from typing import Any

from muster.errors import InvalidArgument
from muster.history import Evaluation
from muster.v1 import job_pb2, status_pb2

_BITS_PER_BYTE = "bits_per_byte"
_PERPLEXITY = "perplexity"
_LOSS = "loss"
# How a file of tokens begins (common/tokenizer/files/token_file.cc).
_TOKEN_FILE = b"MUSTERTK"


def evaluation_of(
    job: status_pb2.JobStatus, clock: int, data: str | os.PathLike[str] | None, metric: str
) -> job_pb2.JobSpec:
    """Returns a job of no steps with the checkpoint's weights, and with all of its data held out.

    Raises:
        InvalidArgument: the job runs a program, or `data` cannot be in place of its data.
    """
    if job.spec.model.WhichOneof("model") == "program":
        raise InvalidArgument(
            f"job {job.job_id} runs a program, and only that knows how its checkpoints are evaluated: have it call "
            "muster.report(step, evaluation={...}) (docs/programs.md)"
        )
    name = f"{job.job_id}@{clock}"
    spec = job_pb2.JobSpec()
    spec.CopyFrom(job.spec)
    for field in ("resume_from", "stop", "evaluation", "checkpoint"):
        spec.ClearField(field)
    spec.name = f"evaluate {name}"
    spec.initial_weights = name
    spec.stop.evaluate_only = True
    spec.evaluation.metric = _measured(spec, metric)
    if data is not None:
        spec.ClearField("validation")
        spec.data.holdout = 1
        _replace_data(os.path.abspath(os.fspath(data)), spec.data)
    return spec


def evaluation_in(last: status_pb2.JobStatus, clock: int, metric: str) -> Evaluation:
    """Returns what the job of `evaluation_of` measured, under the metric that was asked for."""
    measured = Evaluation.of(last.evaluations[-1])
    measured = dataclasses.replace(measured, step=clock)
    if measured.metric != _BITS_PER_BYTE or measured.no_value or metric not in (_LOSS, _PERPLEXITY):
        return measured
    # The number of equally likely tokens that the loss is worth.
    value = measured.loss if metric == _LOSS else _exp(measured.loss)
    return dataclasses.replace(measured, metric=metric, value=value)


def continuation_of(
    job: status_pb2.JobStatus, clock: int, steps: int | None, epochs: float | None
) -> job_pb2.JobSpec:
    """Returns the job again, going on from its checkpoint, with another end if one is given.

    Raises:
        InvalidArgument: both ends are given.
    """
    if steps is not None and epochs is not None:
        raise InvalidArgument(f"steps is {steps} and epochs is {epochs}; give one of them")
    spec = job_pb2.JobSpec()
    spec.CopyFrom(job.spec)
    # The checkpoint has the weights.
    spec.ClearField("initial_weights")
    spec.resume_from = f"{job.job_id}@{clock}"
    if steps is not None or epochs is not None:
        spec.stop.ClearField("steps")
        spec.stop.ClearField("epochs")
    if steps is not None:
        spec.stop.steps = steps
    if epochs is not None:
        spec.stop.epochs = epochs
    return spec


def generate_words(name: str, prompt: str, options: dict[str, Any]) -> list[str]:
    """Returns the words of `muster generate` after its name; options that are None are left out."""
    flags = [f"--{option.replace('_', '-')}={value}" for option, value in options.items() if value is not None]
    # A flag that ends with `=` would take the next word.
    return ["generate", name, *([f"--prompt={prompt}"] if prompt else ["--prompt", ""]), *flags]


def _exp(exponent: float) -> float:
    try:
        return math.exp(exponent)
    except OverflowError:
        return math.inf


def _measured(spec: job_pb2.JobSpec, metric: str) -> str:
    """Returns the metric to measure, of which `metric` can be computed."""
    from_loss = metric in ("", _LOSS, _PERPLEXITY)
    return _BITS_PER_BYTE if from_loss and spec.model.WhichOneof("model") == "transformer" else metric


def _replace_data(path: str, data: job_pb2.DataSpec) -> None:
    """Puts another file or folder in place of the data's."""
    reader = data.WhichOneof("reader")
    fields: Any = getattr(data, reader) if reader else None
    if reader == "idx":
        labels = path.replace("images-idx3", "labels-idx1")
        if labels == path:
            raise InvalidArgument(f"data is {path}; name the images …images-idx3…, with …labels-idx1… beside it")
        fields.images, fields.labels = path, labels
        return
    if not hasattr(fields, "path"):
        raise InvalidArgument(f"data is {path}, but the job's data is synthetic; leave data out")
    if reader == "sequences":
        # A file of tokens has its own tokenizer. Text in its place is encoded by the same one.
        tokenizer = fields.tokenizer or (fields.path if _is_token_file(fields.path) else "")
        fields.tokenizer = "" if _is_token_file(path) else tokenizer
    fields.path = path


def _is_token_file(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(len(_TOKEN_FILE)) == _TOKEN_FILE
    except OSError:
        return False
