"""Scripts of several processes that are started by hand: what they are told."""

import subprocess

import pytest
from conftest import PYTHON

pytest.importorskip("torch")

SCRIPT = """
import torch.distributed as dist
import muster.torch
dist.init_process_group("muster")
print(dist.get_world_size())
"""


def start(script, installed, **variables):
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(installed), **variables}
    return subprocess.run([PYTHON, script], env=environment, capture_output=True, text=True)


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(SCRIPT)
    return path


def test_a_script_by_hand_is_told_how_to_start_it(script, installed):
    done = start(script, installed)
    assert done.returncode
    said = done.stderr.splitlines()[-1]
    assert said.startswith("muster.errors.InvalidArgument: mine.py was started by hand")
    assert "RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT are not set" in said
    assert f"command: [python3, {script}]" in said and "muster submit job.yaml --watch" in said
    assert "torchrun --nproc_per_node 2 mine.py" in said
    assert "RANK=0, 1, …, WORLD_SIZE=2, MASTER_ADDR=127.0.0.1 and MASTER_PORT=29500" in said


def test_the_variables_that_are_missing_are_named(script, installed):
    said = start(script, installed, RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1").stderr.splitlines()[-1]
    assert "this is: MASTER_PORT is not set" in said


def test_with_the_variables_it_runs_and_other_errors_stay(script, installed):
    # Port 0 is a free one.
    variables = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    done = start(script, installed, **variables)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    said = start(script, installed, **{**variables, "RANK": "first"}).stderr.splitlines()[-1]
    assert said.startswith("ValueError: invalid literal")
