"""Histories and evaluations as tables of pandas. Where pandas is not there, a stand-in notes what it is given."""

import math
import sys
import types

import pytest
from muster.v1 import job_service_pb2, status_pb2

import muster


class Noted:
    """A table or an index as it was asked for."""

    def __init__(self, data, **options):
        self.data = data
        self.options = options


@pytest.fixture
def noting(monkeypatch):
    """Puts the stand-in in place of pandas."""
    pandas = types.ModuleType("pandas")
    pandas.DataFrame = pandas.Index = Noted
    monkeypatch.setitem(sys.modules, "pandas", pandas)


def history():
    """Three losses of two steps each, and an accuracy at the last step of the second."""
    chunk = job_service_pb2.MetricsChunk()
    loss = chunk.series.add(name="train/loss")
    for step in (2, 4, 6):
        loss.points.add(first_step=step - 1, last_step=step, values=2, last=9, mean=1 / step, min=0, max=9)
    chunk.series.add(name="held_out/accuracy").points.add(first_step=4, last_step=4, values=1, last=0.75)
    made = muster.History()
    made._add(chunk)
    return made


def evaluations():
    messages = [
        status_pb2.EvaluationResult(clock=20, metric="auc", value=0.5, loss=0.7, examples=10, training_seconds=1.5),
        status_pb2.EvaluationResult(clock=40, metric="auc", loss=0.6, examples=10, no_value="one class", training_seconds=3),
    ]
    return muster.Evaluations(map(muster.Evaluation.of, messages))


def test_a_history_has_a_column_for_each_series_and_a_row_for_each_step(noting):
    table = history().to_pandas()
    assert (table.options["index"].data, table.options["index"].options) == ([2, 4, 6], {"name": "step"})
    assert table.data["train/loss"] == [1 / 2, 1 / 4, 1 / 6]
    first, second, third = table.data["held_out/accuracy"]
    assert second == 0.75 and math.isnan(first) and math.isnan(third)


def test_evaluations_have_a_row_each(noting):
    table = evaluations().to_pandas()
    assert (table.options["index"].data, table.options["index"].options) == ([20, 40], {"name": "step"})
    assert list(table.data) == ["metric", "value", "no_value", "loss", "examples", "training_seconds"]
    assert table.data["value"][0] == 0.5 and math.isnan(table.data["value"][1])
    assert table.data["no_value"] == ["", "one class"]


def test_an_evaluation_has_what_is_known_of_each_class():
    confusion = status_pb2.Confusion(classes=3, labels=["a", "b", "c"], counts=[6, 2, 0, 0, 0, 0, 3, 1, 0])
    message = status_pb2.EvaluationResult(clock=20, metric="accuracy", value=0.5, examples=12, confusion=confusion)
    evaluation = muster.Evaluation.of(message)
    assert evaluation.confusion == [[6, 2, 0], [0, 0, 0], [3, 1, 0]] and math.isnan(evaluation.auc)
    a, b, c = evaluation.classes
    assert a == muster.ClassResult("a", 8, 6 / 9, 6 / 8, 12 / 17)
    assert (b.examples, b.precision, b.f1) == (0, 0, 0) and math.isnan(b.recall)
    assert (c.examples, c.recall, c.f1) == (4, 0, 0) and math.isnan(c.precision)
    assert evaluation in {evaluation}

    message = status_pb2.EvaluationResult(confusion=status_pb2.Confusion(classes=101), auc=0.5)
    assert (muster.Evaluation.of(message).classes, muster.Evaluation.of(message).confusion) == ([], [])
    assert muster.Evaluation.of(message).auc == 0.5
    assert evaluations()[0].classes == [] and math.isnan(evaluations()[0].auc)


def test_tables_are_those_of_pandas():
    pandas = pytest.importorskip("pandas")
    table = history().to_pandas()
    assert isinstance(table, pandas.DataFrame) and table.index.name == "step"
    assert table["held_out/accuracy"].dropna().to_dict() == {4: 0.75}
    assert evaluations().to_pandas().loc[20, "metric"] == "auc"
    assert muster.History().to_pandas().empty and muster.Evaluations().to_pandas().empty
