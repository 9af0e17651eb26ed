"""How a job ends whose program stands in for a script that runs by hand (muster._stand_in)."""

import os
import subprocess

import pytest
from conftest import MUSTER, PYTHON, run
from muster.v1 import status_pb2

import muster

WAIT_SECONDS = 300
# With the number of the case as the job's name.
START = """
import atexit, os, signal, sys, threading
from muster import _stand_in
_stand_in.start({"name": sys.argv[1]})
"""
# The end of a script, and the status that a shell sees; None: none, for a signal.
WELL = ["pass", "sys.exit()", "raise SystemExit(0)", "try:\n    sys.exit(3)\nexcept SystemExit:\n    pass"]
# The end of a forked process is not the script's.
WELL += ["if os.fork() == 0:\n    sys.exit(3)\nos.wait()"]
BADLY = {
    "sys.exit(3)": 3,
    "sys.exit('a text')": 1,
    "raise SystemExit(3)": 3,
    "exit(4)": 4,
    "raise ValueError": 1,
    # This tells nobody its status.
    "atexit.register(os._exit, 3)": None,
    "threading.Thread(target=os._exit, args=(0,)).start()\nsignal.pause()": None,
    "os.kill(os.getpid(), signal.SIGKILL)": None,
}


@pytest.fixture(scope="module")
def script(tmp_path_factory, installed):
    """Runs a script with this end; returns its status, and its job's."""
    folder = tmp_path_factory.mktemp("stand_in")
    environment = {**os.environ, "PYTHONPATH": str(installed), "HOME": str(folder)}
    environment.pop("MUSTER_COORDINATOR", None)
    run(MUSTER, "up", "--servers", 1, "--workers", 1, "--data-dir", folder / "cluster", "--allow-programs", env=environment)

    def run_script(end):
        done = subprocess.run([PYTHON, "-c", START + end, "script"], env=environment)
        with muster.connect(folder=folder / "cluster") as client:
            job = client.jobs()[0]
            for status in job.watch():
                last = status
            return done.returncode, last, "".join(job.logs())

    yield run_script
    run(MUSTER, "down", "--data-dir", folder / "cluster", env=environment)


@pytest.mark.parametrize("end", WELL)
def test_a_script_that_ends_well_ends_its_job_well(script, end):
    returned, status, log = script(end)
    assert returned == 0
    assert status.state == status_pb2.SUCCEEDED, log


@pytest.mark.parametrize(("end", "shown"), BADLY.items())
def test_a_script_that_ends_otherwise_fails_its_job(script, end, shown):
    _, status, log = script(end)
    assert status.state == status_pb2.FAILED, log
    how = "by a signal or os._exit()" if shown is None else f"with status {shown}"
    assert f"ended without saying that it was done: {how}" in status.message
