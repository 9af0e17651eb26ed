"""What a program says to its task, with a task of our own at the socket; and what it does where there is no task."""

import contextlib
import json
import math
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading

import pytest

import muster


class Task:
    """Answers as docs/programs.md says.

    Attributes:
        answers: what is not {"ok": true}, by call.
        before: functions to run before the answer to a call.
    """

    def __init__(self, path):
        self.requests = []
        self.answers = {}
        self.before = {}
        self.connections = 0
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        # A program may have closed its end.
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as lines:
            for line in lines:
                request = json.loads(line)
                self.requests.append(request)
                answer = self.answers.get(request["call"], {"ok": True})
                if answer is None:
                    return
                self.before.get(request["call"], lambda: None)()
                connection.sendall(json.dumps(answer).encode() + b"\n")

    def close(self):
        self._listener.close()


@pytest.fixture
def task(tmp_path, monkeypatch):
    # A path of a socket has to be short.
    path = tmp_path / "t"
    monkeypatch.chdir(tmp_path)
    task = Task("t")
    monkeypatch.setenv("MUSTER_TASK", "t" if len(str(path)) > 100 else str(path))
    monkeypatch.setenv("MUSTER_TASK_TOKEN", "secret")
    monkeypatch.setattr(muster.program, "_idle", [])
    yield task
    task.close()


def test_reports_carry_metrics_examples_and_evaluations(task):
    numpy = pytest.importorskip("numpy")
    assert muster.in_job()
    muster.report(numpy.int64(1), loss=numpy.float32(0.5), accuracy=1)
    muster.report(2, loss=math.nan, up=math.inf, down=-math.inf, examples=64, evaluation={"accuracy": 0.75, "loss": 0.25})
    assert task.requests == [
        {"token": "secret", "call": "report", "step": 1, "metrics": {"loss": 0.5, "accuracy": 1.0}},
        {
            "token": "secret",
            "call": "report",
            "step": 2,
            "metrics": {"loss": "NaN", "up": "Infinity", "down": "-Infinity"},
            "examples": 64,
            "evaluation": {"accuracy": 0.75, "loss": 0.25},
        },
    ]
    assert task.connections == 1


def test_figures_that_are_no_numbers_are_named(task):
    with pytest.raises(TypeError, match=r"'metrics' is dict, and figures are numbers by name: muster.report\(step, loss=0.31\)"):
        muster.report(1, metrics={"loss": 0.5})
    assert task.requests == []


def test_refusals_are_errors_and_the_connection_stays(task):
    task.answers["report"] = {"ok": False, "code": "INVALID_ARGUMENT", "message": "step 1 is before step 2"}
    with pytest.raises(muster.InvalidArgument, match="step 1 is before step 2"):
        muster.report(1)
    task.answers.clear()
    muster.report(3)
    assert task.connections == 1


def test_a_checkpoint_is_committed_at_the_end_of_its_block(task, tmp_path):
    task.answers["begin_checkpoint"] = {"ok": True, "folder": str(tmp_path)}
    with muster.checkpoint(100) as folder:
        assert folder == tmp_path
        assert [each["call"] for each in task.requests] == ["begin_checkpoint"]
    assert task.requests[-1] == {"token": "secret", "call": "commit_checkpoint", "step": 100, "whole": False}
    with muster.checkpoint(200, whole=True):
        pass
    assert task.requests[-1]["whole"] is True


def test_a_checkpoint_is_dropped_if_its_block_raises(task, tmp_path):
    task.answers["begin_checkpoint"] = {"ok": True, "folder": str(tmp_path)}
    with pytest.raises(ZeroDivisionError), muster.checkpoint(100):
        _ = 1 / 0
    assert [each["call"] for each in task.requests] == ["begin_checkpoint", "drop_checkpoint"]
    task.answers["drop_checkpoint"] = None
    with pytest.raises(ZeroDivisionError), muster.checkpoint(100):
        _ = 1 / 0


def test_a_commit_that_cannot_be_is_an_error_with_its_code(task, tmp_path):
    task.answers["begin_checkpoint"] = {"ok": True, "folder": str(tmp_path)}
    task.answers["commit_checkpoint"] = {"ok": False, "code": "FAILED_PRECONDITION", "message": "the disk is full"}
    with pytest.raises(muster.Error, match="the disk is full") as raised, muster.checkpoint(1):
        pass
    assert raised.value.code == "FAILED_PRECONDITION"
    assert task.requests[-1]["call"] == "commit_checkpoint"


def test_a_run_goes_on_from_the_last_checkpoint(task):
    task.answers["resume"] = {"ok": True, "folder": None, "step": 0}
    assert muster.resume_folder() is None and muster.resume() is None
    task.answers["resume"] = {"ok": True, "folder": "/some/where", "step": 7}
    assert muster.resume_folder() == pathlib.Path("/some/where")
    assert muster.resume() == muster.Resumed(pathlib.Path("/some/where"), 7)


def test_a_task_that_has_ended_is_an_error(task):
    task.answers["report"] = None
    with pytest.raises(muster.Error, match="has closed the connection; the job is ending"):
        muster.report(1)


def test_no_task_at_the_socket_is_an_error_that_names_it(monkeypatch, tmp_path):
    monkeypatch.setenv("MUSTER_TASK", str(tmp_path / "none"))
    monkeypatch.setattr(muster.program, "_idle", [])
    with pytest.raises(muster.Error, match=f"no task answers at MUSTER_TASK={tmp_path}/none"):
        muster.report(1)
    monkeypatch.delenv("MUSTER_TASK")
    with pytest.raises(muster.Error, match="no task answers at MUSTER_TASK=: "):
        muster.program.call("info")


@pytest.fixture
def on_sigterm():
    """Sets the handler of SIGTERM until the test has ended."""
    before = signal.getsignal(signal.SIGTERM)
    yield lambda handler: signal.signal(signal.SIGTERM, handler)
    signal.signal(signal.SIGTERM, before)


def test_a_signal_handler_saves_while_the_program_is_in_a_call(task, tmp_path, on_sigterm):
    task.answers["begin_checkpoint"] = {"ok": True, "folder": str(tmp_path)}
    saved = threading.Event()

    def save(*_):
        with muster.checkpoint(1):
            pass
        saved.set()

    def end():
        os.kill(os.getpid(), signal.SIGTERM)
        saved.wait()

    on_sigterm(save)
    task.before["report"] = end
    muster.report(1)
    assert [each["call"] for each in task.requests] == ["report", "begin_checkpoint", "commit_checkpoint"]


def test_an_answer_that_comes_after_an_exception_is_not_that_of_the_next_call(task, on_sigterm):
    task.answers["resume"] = {"ok": True, "folder": "/some/where", "step": 7}
    raised = threading.Event()

    def end():
        os.kill(os.getpid(), signal.SIGTERM)
        raised.wait()

    on_sigterm(lambda *_: sys.exit(3))
    task.before["report"] = end
    with pytest.raises(SystemExit):
        muster.report(1)
    raised.set()
    assert muster.resume() == muster.Resumed(pathlib.Path("/some/where"), 7)


def test_a_report_does_not_wait_for_a_commit_of_another_thread(task, tmp_path):
    task.answers["begin_checkpoint"] = {"ok": True, "folder": str(tmp_path)}
    committing, reported = threading.Event(), threading.Event()
    waits = []

    def commit():
        committing.set()
        waits.append(reported.wait(60))

    def save():
        with muster.checkpoint(1):
            pass

    task.before["commit_checkpoint"] = commit
    thread = threading.Thread(target=save)
    thread.start()
    committing.wait()
    muster.report(2)
    reported.set()
    thread.join()
    assert waits == [True]
    assert [each["call"] for each in task.requests] == ["begin_checkpoint", "commit_checkpoint", "report"]


def test_threads_call_at_one_time_and_children_make_their_own_connection(task, installed):
    threads = [threading.Thread(target=muster.report, args=(1,)) for _ in range(20)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(task.requests) == 20
    muster.report(1)
    before = task.connections
    muster.report(1)
    assert task.connections == before
    child = os.fork()
    if child == 0:
        try:
            muster.report(2)
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert task.connections == before + 1 and task.requests[-1]["step"] == 2
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    subprocess.run([sys.executable, "-c", "import muster; muster.report(3)"], check=True, env=environment)
    assert task.requests[-1]["step"] == 3


def test_a_program_that_runs_by_hand_goes_through_the_same_calls(monkeypatch, tmp_path):
    monkeypatch.delenv("MUSTER_TASK", raising=False)
    monkeypatch.chdir(tmp_path)
    assert not muster.in_job() and muster.resume_folder() is None
    muster.report(1, loss=0.5)
    with muster.checkpoint(5) as folder:
        (folder / "weights").write_text("w")
    assert (tmp_path / "muster-checkpoints/5/weights").read_text() == "w"
