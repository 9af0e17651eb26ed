"""What the client makes of the messages of a stream: a history of chunks, and tensors of a file's parts."""

import json

import pytest

import muster
from muster._tensors import TensorReader
from muster.v1 import job_service_pb2, metrics_pb2


def chunk(points, replaces_from=10**9, name="train/loss", marks=()):
    """A message with one series, whose points are (first step, last step, value)."""
    series = metrics_pb2.Series(name=name, replaces_from=replaces_from)
    for first, last, value in points:
        series.points.add(first_step=first, last_step=last, values=last - first + 1, mean=value, min=value, max=value,
                          last=value, unix_ms=1500)  # fmt: skip
    message = job_service_pb2.MetricsChunk(series=[series])
    for clock, reached in marks:
        message.marks.add(clock=clock, reached=reached, unix_ms=2000)
    return message


def test_new_points_take_the_place_of_those_that_they_replace():
    history = muster.History()
    history._add(chunk([(1, 1, 5.0), (2, 2, 4.0), (3, 3, 3.0)]))
    # Neighbours were joined.
    history._add(chunk([(2, 3, 3.5), (4, 5, 2.0)], replaces_from=2))
    history._add(chunk([(4, 4, 0.5)], name="held_out/loss"))
    loss = history["train/loss"]
    assert (loss.steps, loss.values) == ([1, 3, 5], [5.0, 3.5, 2.0])
    assert loss.points[1] == muster.Point(2, 3, 2, 3.5, 3.5, 3.5, 3.5, 1.5)
    assert list(history) == ["train/loss", "held_out/loss"] and len(history) == 2 and not history.roll_backs
    # A roll-back to step 1.
    history._add(chunk([], replaces_from=2, marks=[(1, 5)]))
    assert loss.steps == [1] and history.roll_backs == [muster.RollBack(1, 5, 2.0)]


def test_one_value_is_its_own_mean():
    history = muster.History()
    message = job_service_pb2.MetricsChunk()
    message.series.add(name="a").points.add(first_step=3, last_step=3, values=1, last=0.25)
    history._add(message)
    point = history["a"].points[0]
    assert point.mean == point.min == point.max == point.value == 0.25


def safetensors(header, data):
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


FILE = safetensors(
    {
        "__metadata__": {"job": "j1"},
        "b": {"dtype": "U64", "shape": [2], "data_offsets": [8, 24]},
        "empty": {"dtype": "F32", "shape": [0, 4], "data_offsets": [8, 8]},
        "a": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]},
        "half": {"dtype": "BF16", "shape": [], "data_offsets": [24, 26]},
    },
    b"\0\0\x80\x3f\0\0\0\x40" + (2**64 - 1).to_bytes(8, "little") + (7).to_bytes(8, "little") + b"\x80\x3f",
)


def read(library, data, size):
    reader = TensorReader(library)
    for begin in range(0, len(data), size):
        reader.add(data[begin : begin + size])
    return reader.finish()


@pytest.mark.parametrize("size", [1, 7, 50, 10**6])
def test_tensors_are_the_same_however_the_file_is_cut(size):
    torch = pytest.importorskip("torch")
    tensors = read("torch", FILE, size)
    assert tensors["a"].tolist() == [[1.0], [2.0]] and tensors["b"].tolist() == [-1, 7]
    assert tensors["empty"].shape == (0, 4) and tensors["half"].item() == 1 and tensors["half"].dtype == torch.bfloat16


def test_types_that_a_library_lacks_are_named():
    pytest.importorskip("numpy")
    with pytest.raises(muster.Error, match="half has the type BF16, which numpy lacks"):
        read("numpy", FILE, 64)


@pytest.mark.parametrize(
    "data, said",
    [
        (FILE[:-1], "it ends too early"),
        (FILE[:9], "it ends too early"),
        (FILE + b"x", "it has more bytes than tensors"),
        (b"\xff" * 16, "its header would have "),
        ((8).to_bytes(8, "little") + b"not JSON", "its header of 8 bytes is no JSON"),
        (safetensors({"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}, bytes(8)), "a is said to be at bytes 0 to 8"),
        (safetensors({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}, bytes(8)), "a is said to be at bytes 4 to 8"),
    ],
    ids=["short", "header", "long", "huge", "text", "size", "gap"],
)
def test_a_damaged_file_is_an_error(data, said):
    pytest.importorskip("torch")
    with pytest.raises(muster.Error, match=said) as raised:
        read("torch", data, 10**6)
    assert raised.value.code == "DATA_LOSS"
