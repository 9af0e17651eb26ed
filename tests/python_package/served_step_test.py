"""A step on servers is the step that the script sees (the table in docs/python.md)."""

import pathlib

import pytest

torch = pytest.importorskip("torch")
import served_steps  # noqa: E402
from program_cluster import ProgramCluster  # noqa: E402

import muster  # noqa: E402
import muster.torch  # noqa: E402

WAIT_SECONDS = 240
PROGRAM = pathlib.Path(served_steps.__file__).resolve()


@pytest.fixture(scope="module")
def programs(installed, tmp_path_factory):
    made = ProgramCluster(tmp_path_factory.mktemp("programs"), installed)
    yield made
    made.end()


@pytest.mark.parametrize(("kind", "workers"), [("steps", 1), ("steps", 2), ("clip", 2), ("backward", 1)])
def test_each_step_is_the_one_that_the_script_sees(programs, kind, workers):
    programs.submit(PROGRAM, kind, workers=workers, model__program__max_restarts=0).wait(WAIT_SECONDS)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"push": "never"}, 'push is \'never\'; it must be "step" or "backward"'),
        ({"clip": -1.0}, "clip is -1.0; it must be a positive norm"),
        ({"clip": 1.0, "staleness": 2}, "clip needs staleness 0"),
    ],
)
def test_options_that_cannot_be_are_named(options, says):
    with pytest.raises(muster.InvalidArgument, match=says):
        muster.torch.ParameterServer(torch.nn.Linear(1, 1), muster.SGD(lr=0.1), **options)
