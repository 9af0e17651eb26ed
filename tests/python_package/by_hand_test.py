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


ATTEMPTS = """
import os
import torch.distributed as dist
import muster.torch


def attempt(**variables):
    os.environ.update(variables)
    try:
        dist.init_process_group("muster")
        print(dist.get_world_size())
    except Exception as error:
        print(f"{type(error).__name__}: {error}")


attempt(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1")
# Port 0 is a free one.
attempt(MASTER_PORT="0", RANK="first")
attempt(RANK="0")
"""


def test_missing_variables_are_named_other_errors_stay_and_with_all_of_them_it_runs(script, installed):
    script.write_text(ATTEMPTS)
    done = start(script, installed)
    assert done.returncode == 0, done.stderr
    missing, other, size = done.stdout.splitlines()
    assert missing.startswith("InvalidArgument: ") and "this is: MASTER_PORT is not set" in missing
    assert other.startswith("ValueError: invalid literal")
    assert size == "1"
