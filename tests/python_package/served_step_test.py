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


@pytest.mark.parametrize(("kind", "workers"), [("steps", 1), ("steps", 2), ("rows", 2), ("clip", 2), ("backward", 1)])
def test_each_step_is_the_one_that_the_script_sees(programs, kind, workers):
    programs.submit(PROGRAM, kind, workers=workers, model__program__max_restarts=0).wait(WAIT_SECONDS)


UNEVEN = """
import os
import sys
import torch
import muster
import muster.torch

net = torch.nn.Linear(2, 1)
served = muster.torch.ParameterServer(net, muster.SGD(lr=0.1), staleness=float(sys.argv[1]))
for _ in range(7 if os.environ["RANK"] == "0" else 3):
    net(torch.ones(1, 2)).sum().backward()
    served.step()
served.synchronize()
"""


def test_a_rank_that_ends_first_is_named(programs, tmp_path):
    program = tmp_path / "uneven.py"
    program.write_text(UNEVEN)
    jobs = {each: programs.submit(program, each, model__program__max_restarts=0) for each in ("0", "2", "inf")}
    jobs["inf"].wait(WAIT_SECONDS)
    for staleness in ("0", "2"):
        with pytest.raises(muster.JobFailed, match="slot 1 has ended after 3 steps, and others wait for step 4 of it") as raised:
            jobs[staleness].wait(WAIT_SECONDS)
        assert raised.value.slot == 0


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
