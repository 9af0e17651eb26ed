"""A job's history, series of figures over its steps (proto/metrics.proto names them), and its evaluations."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, List

from muster import _requirements
from muster.v1 import job_service_pb2, metrics_pb2, status_pb2


@dataclasses.dataclass(frozen=True)
class Point:
    """One value of a series, or several of consecutive steps.

    Attributes:
        first_step: the step of the first value.
        step: the step of the last value.
        count: the number of values.
        value: the last value.
        mean: the values' mean.
        min: the least value.
        max: the greatest value.
        time: when the coordinator learnt of the last value, in seconds since 1970.
    """

    first_step: int
    step: int
    count: int
    value: float
    mean: float
    min: float
    max: float
    time: float


@dataclasses.dataclass(frozen=True)
class Series:
    """One figure over a job's steps. No step is in two points."""

    name: str
    points: list[Point]

    @property
    def steps(self) -> list[int]:
        """The last step of each point."""
        return [each.step for each in self.points]

    @property
    def values(self) -> list[float]:
        """The mean of each point."""
        return [each.mean for each in self.points]


@dataclasses.dataclass(frozen=True)
class RollBack:
    """The job went back from step `reached` to step `step`; later steps left its history."""

    step: int
    reached: int
    time: float


class History(Mapping[str, Series]):
    """The series that were asked for, by name.

    Attributes:
        roll_backs: the job's last ones, oldest first.
    """

    def __init__(self) -> None:
        self._series: dict[str, Series] = {}
        self.roll_backs: list[RollBack] = []

    def __getitem__(self, name: str) -> Series:
        return self._series[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._series)

    def __len__(self) -> int:
        return len(self._series)

    def __repr__(self) -> str:
        return f"<History of {', '.join(f'{each.name} ({len(each.points)} points)' for each in self.values()) or 'nothing'}>"

    def to_pandas(self) -> Any:
        """Returns a DataFrame of pandas: a column for each series, and a row for each step at which any of them has a value.

        A value is the mean of its point's steps, and NaN where a series has none at the step.

        Raises:
            ImportError: pandas is not installed; says how to install it.
        """
        pandas = _requirements.optional("pandas", "History.to_pandas")
        values = {name: dict(zip(each.steps, each.values)) for name, each in self._series.items()}
        steps = sorted({step for each in values.values() for step in each})
        columns = {name: [each.get(step, math.nan) for step in steps] for name, each in values.items()}
        return pandas.DataFrame(columns, index=pandas.Index(steps, name="step"))

    def _clear(self) -> None:
        self._series.clear()
        self.roll_backs = []

    def _add(self, chunk: job_service_pb2.MetricsChunk) -> None:
        """Takes one message of a stream."""
        if chunk.marks:
            self.roll_backs = [RollBack(each.clock, each.reached, each.unix_ms / 1000) for each in chunk.marks]
        for added in chunk.series:
            points = self._series.setdefault(added.name, Series(added.name, [])).points
            while points and points[-1].step >= added.replaces_from:
                points.pop()
            points += map(_point, added.points)


@dataclasses.dataclass(frozen=True)
class ClassResult:
    """How well a classifier knows one class. A share of nothing is NaN.

    Attributes:
        label: as it stands in the training data; the class's number where that is the label.
        examples: the number of examples of the class.
        precision: of the examples that were predicted as this class, the share that are of it.
        recall: of the class's examples, the share that were predicted as it.
        f1: the harmonic mean of the two; 0 if no example was predicted rightly.
    """

    label: str
    examples: int
    precision: float
    recall: float
    f1: float


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """What a model was measured at on held-out data.

    What is in `auc`, `classes` and `confusion` comes from `Job.evaluate` and `Checkpoint.evaluate` alone.

    Attributes:
        step: the number of steps that the job had made.
        metric: the metric's name.
        value: its value; NaN if it has none on these examples, such as AUC on examples of one class.
        no_value: why it has none; empty: it has one.
        loss: the mean loss of an example.
        examples: the number of examples that were measured.
        training_seconds: how long the job had trained.
        auc: of a classifier of two classes: the area under the ROC curve, with the second class as the positive one; NaN
            for other models, and if all examples are of one class.
        classes: of a classifier: its classes in order; empty for other models, and for more than 100 classes.
        confusion: the number of examples by true and predicted class: `confusion[1][0]` are of the second class, and were
            predicted as the first. Empty where `classes` is.
    """

    step: int
    metric: str
    value: float
    no_value: str
    loss: float
    examples: int
    training_seconds: float
    auc: float = math.nan
    # Lists have no hash.
    classes: list[ClassResult] = dataclasses.field(default_factory=list, hash=False)
    confusion: list[list[int]] = dataclasses.field(default_factory=list, hash=False)

    @staticmethod
    def of(message: status_pb2.EvaluationResult) -> Evaluation:
        """Returns the evaluation that a message of the coordinator describes."""
        confusion = _rows(message.confusion)
        return Evaluation(
            message.clock,
            message.metric,
            message.value if message.HasField("value") else math.nan,
            message.no_value,
            message.loss,
            message.examples,
            message.training_seconds,
            message.auc if message.HasField("auc") else math.nan,
            _class_results(message.confusion.labels, confusion),
            confusion,
        )


class Evaluations(List[Evaluation]):
    """A job's evaluations, the oldest first."""

    def to_pandas(self) -> Any:
        """Returns a DataFrame of pandas: a row for each evaluation with its step as index, a column for each attribute that a
        job's evaluations have.

        Raises:
            ImportError: pandas is not installed; says how to install it.
        """
        pandas = _requirements.optional("pandas", "Evaluations.to_pandas")
        left_out = {"step", "auc", "classes", "confusion"}
        names = [each.name for each in dataclasses.fields(Evaluation) if each.name not in left_out]
        columns = {name: [getattr(each, name) for each in self] for name in names}
        return pandas.DataFrame(columns, index=pandas.Index([each.step for each in self], name="step"))


def _rows(confusion: status_pb2.Confusion) -> list[list[int]]:
    counts, classes = list(confusion.counts), len(confusion.labels)
    return [counts[row * classes : (row + 1) * classes] for row in range(classes)]


def _class_results(labels: Sequence[str], confusion: list[list[int]]) -> list[ClassResult]:
    def share(part: int, whole: int) -> float:
        return part / whole if whole else math.nan

    results = []
    for index, label in enumerate(labels):
        hits, examples, predicted = confusion[index][index], sum(confusion[index]), sum(row[index] for row in confusion)
        results.append(
            ClassResult(label, examples, share(hits, predicted), share(hits, examples), share(2 * hits, examples + predicted))
        )
    return results


def _point(message: metrics_pb2.SeriesPoint) -> Point:
    one = message.values == 1
    return Point(
        message.first_step,
        message.last_step,
        message.values,
        message.last,
        message.last if one else message.mean,
        message.last if one else message.min,
        message.last if one else message.max,
        message.unix_ms / 1000,
    )
