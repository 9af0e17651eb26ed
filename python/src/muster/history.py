"""A job's history: series of figures over its steps. proto/metrics.proto names the series."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from muster.v1 import job_service_pb2, metrics_pb2


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
