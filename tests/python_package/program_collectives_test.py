"""The backend "muster" in a program job, with a task of our own: how ranks listen, and what a user is told of their calls."""

import datetime
import threading

import pytest
from program_test import task  # noqa: F401

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402

import muster  # noqa: E402
import muster.torch  # noqa: E402
from muster.torch import _collective_reports, _meeting  # noqa: E402

WAIT_SECONDS = 120
ENDPOINT = {
    "ok": True, "host": "127.0.0.1", "first_port": 0, "last_port": 0, "advertised_host": "", "shared_memory": False,
    "tls": True, "connections": 1, "round_secret": "ab" * 32,
}  # fmt: skip


@pytest.fixture
def job(task):  # noqa: F811
    """A task that nobody asks."""
    task.answers["endpoint"] = ENDPOINT
    task.answers["await_collectives_wanted"] = None
    return task


@pytest.fixture
def in_threads():
    """Runs a function of each rank's group, in threads of this process; returns what they raised, by rank."""

    def run(body, timeout=60):
        store = dist.HashStore()
        errors = [None, None]

        def run_rank(rank):
            try:
                body(rank, muster.torch.ProcessGroup(store, rank, 2, datetime.timedelta(seconds=timeout)))
            except Exception as error:
                errors[rank] = error

        threads = [threading.Thread(target=run_rank, args=(rank,)) for rank in range(2)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(WAIT_SECONDS)
        return errors

    return run


def add_up(rank, group):
    tensor = torch.ones(3)
    group.allreduce([tensor]).wait()
    assert tensor.tolist() == [2.0] * 3


def test_ranks_listen_as_their_task_says(job, in_threads, monkeypatch):
    made = []
    make = muster._native.Endpoint
    monkeypatch.setattr(muster._native, "Endpoint", lambda options: made.append(options) or make(options))
    assert in_threads(add_up) == [None, None]
    assert [(each.tls, each.shared_memory, each.host) for each in made] == [(True, False, "127.0.0.1")] * 2


def test_who_does_not_know_the_secret_of_the_round_is_no_rank(in_threads, monkeypatch):
    secrets = iter([b"1" * 32, b"2" * 32])
    monkeypatch.setattr(_meeting, "_how_to_listen", lambda: (muster._native.EndpointOptions(), next(secrets)))
    errors = in_threads(add_up, timeout=3)
    assert all(isinstance(each, muster.Error) for each in errors), errors


def test_a_user_who_asks_is_told_the_last_calls(job, in_threads, monkeypatch):
    asked, told = threading.Event(), threading.Event()
    monkeypatch.setattr(_collective_reports, "_server", None)
    del job.answers["await_collectives_wanted"]
    job.before["await_collectives_wanted"] = asked.wait
    job.before["report_collectives"] = lambda: (told.set(), asked.clear())

    def body(rank, group):
        add_up(rank, group)
        asked.set()
        assert told.wait(WAIT_SECONDS)

    assert in_threads(body) == [None, None]
    report = next(each for each in job.requests if each["call"] == "report_collectives")
    # The other rank's may be under way.
    first = next(each for each in report["calls"] if each["duration_us"] is not None)
    assert first["operation"] == "all_reduce" and first["dtype"] == "f32" and first["reduction"] == "sum", first
    assert first["count"] == 3 and first["sequence"] == 1 and first["error"] == ""


def test_a_failure_is_told_once_with_the_calls_before(job, in_threads):
    def body(rank, group):
        add_up(rank, group)
        for _ in range(2):
            with pytest.raises(muster.CollectiveError, match="rank 0 calls all_reduce f32 sum x 1"):
                group.allreduce([torch.ones(1 + rank)]).wait()

    assert in_threads(body) == [None, None]
    reports = [each["calls"] for each in job.requests if each["call"] == "report_collectives"]
    assert len(reports) == 2
    for calls in reports:
        assert [each["error"] != "" for each in calls if each["operation"] == "all_reduce"].count(True) >= 1
        assert calls[0]["error"] == ""
