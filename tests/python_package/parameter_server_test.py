"""Parameters of PyTorch models on servers: jobs with their own servers, and a plain script."""

import json
import os
import pathlib
import subprocess
import time

import pytest
from conftest import MUSTER, PYTHON, ROOT, run

torch = pytest.importorskip("torch")
import served_program  # noqa: E402
from program_cluster import ProgramCluster  # noqa: E402

import muster  # noqa: E402
import muster.torch  # noqa: E402
from muster.torch import _parameter_server  # noqa: E402

WAIT_SECONDS = 240
PROGRAM = pathlib.Path(served_program.__file__).resolve()
SGD = {"optimizer": "SGD", "lr": 0.05, "deterministic": True}


@pytest.fixture(scope="module")
def programs(installed, tmp_path_factory):
    made = ProgramCluster(tmp_path_factory.mktemp("programs"), installed)
    yield made
    made.end()


def await_line(job, line):
    """Waits until a job's log has the line: the last ones come a moment after its end."""
    until = time.monotonic() + WAIT_SECONDS
    while line not in (text := "".join(job.logs())):
        assert time.monotonic() < until, text
        time.sleep(0.1)


class Run:
    """A job that runs served_program.py, and what its rank 0 wrote."""

    def __init__(self, cluster, out, settings, **changes):
        self.out = out
        self.job = cluster.submit(PROGRAM, json.dumps({**settings, "out": str(out)}), **changes)

    def result(self):
        self.job.wait(WAIT_SECONDS)
        return torch.load(self.out)


def distance(state, expected):
    """The largest distance of two models' tensors, relative to the expected one's norm."""
    assert state.keys() == expected.keys()
    return max(
        float((state[name].double() - value.double()).norm() / max(1e-30, float(value.double().norm())))
        for name, value in expected.items()
        if value.numel() > 0 and value.dtype.is_floating_point and value.norm() > 0
    )


def same_bits(first, second):
    return first.keys() == second.keys() and all(torch.equal(value, second[name]) for name, value in first.items())


# Steps of a run that a loss disturbs, and of the one beside it that nothing does.
DISTURBED = {**SGD, "rows": True, "steps": 12}


@pytest.fixture(scope="module")
def undisturbed(programs, tmp_path_factory):
    """What DISTURBED comes to where nothing happens."""
    return Run(programs, tmp_path_factory.mktemp("undisturbed") / "out.pt", DISTURBED).result()


def same_result(result, expected):
    return same_bits(result["state"], expected["state"]) and torch.equal(result["rows"], expected["rows"])


def test_bsp_is_one_process(programs, tmp_path):
    steps = 30
    cases = {
        "SGD": ({"lr": 0.01, "options": {"momentum": 0.9, "nesterov": True}, "accumulate": True},
                lambda each: torch.optim.SGD(each, 0.01, momentum=0.9, nesterov=True), False),
        "Adagrad": ({"lr": 0.1, "rows": True}, lambda each: torch.optim.Adagrad(each, 0.1), True),
        "Adam": ({"lr": 0.02}, lambda each: torch.optim.Adam(each, 0.02), False),
    }  # fmt: skip
    runs = {
        name: Run(programs, tmp_path / f"{name}.pt", {"optimizer": name, "steps": steps, **settings})
        for name, (settings, _, _) in cases.items()
    }
    for name, (_, optimizer, has_rows) in cases.items():
        result = runs[name].result()
        expected = served_program.train_alone(optimizer, result["first_rows"], steps)
        if has_rows:
            assert result["first_rows"].std() == pytest.approx(0.5, rel=0.3)
            rows = expected.pop("rows.weight")
            assert not torch.equal(rows, result["first_rows"])
            assert float((result["rows"] - rows).norm() / rows.norm()) <= 1e-5
        assert distance(result["state"], expected) <= 1e-5, name


def test_ssp_and_asp_learn(programs, tmp_path):
    runs = [
        Run(programs, tmp_path / f"{staleness}.pt",
            {"optimizer": "Adagrad", "lr": 0.05, "rows": True, "steps": 160, "staleness": staleness})
        for staleness in (3, float("inf"))
    ]  # fmt: skip
    for each in runs:
        losses = each.result()["losses"]
        assert sum(losses[-40:]) < sum(losses[:40]) / 2


def test_a_lost_rank_takes_the_job_and_its_servers_back_to_the_checkpoint(programs, tmp_path):
    settings = {"optimizer": "Adagrad", "lr": 0.1, "deterministic": True, "rows": True, "steps": 24, "checkpoint_every": 8}
    undisturbed = Run(programs, tmp_path / "undisturbed.pt", settings)
    disturbed = Run(programs, tmp_path / "disturbed.pt", {**settings, "dies_at": [1, 19]})
    expected, result = undisturbed.result(), disturbed.result()
    assert (expected["start"], result["start"]) == (0, 16)
    assert same_result(result, expected)
    assert [each.clock for each in disturbed.job.checkpoints()] == [8, 16]
    # What servers had of it can be read like any checkpoint of theirs.
    tensors = disturbed.job.last_checkpoint().tensors()
    assert tensors["first.0.weight"].shape == (16, 20)


def test_a_lost_rank_before_any_checkpoint_begins_with_the_same_values(programs, undisturbed, tmp_path):
    disturbed = Run(programs, tmp_path / "disturbed.pt", {**DISTURBED, "dies_at": [0, 3]})
    assert same_result(disturbed.result(), undisturbed)


def test_an_elastic_program_replaces_a_lost_rank_in_place(programs, undisturbed, tmp_path):
    settings = {**DISTURBED, "dies_at": [1, 5]}
    disturbed = Run(programs, tmp_path / "disturbed.pt", settings, model__program__elastic=True)
    assert same_result(disturbed.result(), undisturbed)
    await_line(disturbed.job, "rank 1 starts at 5")


def test_a_killed_server_comes_back_and_nothing_is_lost(undisturbed, installed, tmp_path):
    cluster = ProgramCluster(tmp_path, installed)
    try:
        settings = {**DISTURBED, "pause_at": 9}
        disturbed = Run(cluster, tmp_path / "disturbed.pt", settings, update__durability="EVERY_PUSH")
        while not pathlib.Path(f"{disturbed.out}.paused").exists():
            assert disturbed.job.state() not in ("FAILED", "CANCELLED"), disturbed.job.status().message
            time.sleep(0.02)
        cluster.kill("s1")
        pathlib.Path(f"{disturbed.out}.go").touch()
        cluster.start_server("s1")
        result = disturbed.result()
        assert same_result(result, undisturbed)
        assert result["start"] == 0 and disturbed.job.status().generation == 1
        assert disturbed.job.state() == "SUCCEEDED"
    finally:
        cluster.end()


LOSES_ITS_SERVER = """
import pathlib
import sys
import time
import torch
import muster
import muster.torch

net = torch.nn.Linear(4, 1)
served = muster.torch.ParameterServer(net, muster.SGD(lr=0.1))
net(torch.ones(1, 4)).sum().backward()
served.step()
served.synchronize()
mark = pathlib.Path(sys.argv[1])
mark.touch()
while mark.exists():
    time.sleep(0.01)
with served.checkpoint(timeout=1.0):
    pass
"""


def test_a_checkpoint_without_a_server_ends_in_time(installed, tmp_path):
    cluster = ProgramCluster(tmp_path, installed, servers=1, slots=1)
    try:
        program, mark = tmp_path / "loses.py", tmp_path / "mark"
        program.write_text(LOSES_ITS_SERVER)
        changes = {"update__durability": "EVERY_PUSH", "model__program__max_restarts": 0}
        job = cluster.submit(program, mark, workers=1, **changes)
        while not mark.exists():
            assert job.state() not in ("FAILED", "CANCELLED"), job.status().message
            time.sleep(0.02)
        # The job waits for the server, and it never comes back.
        cluster.kill("s0")
        mark.unlink()
        with pytest.raises(muster.JobFailed, match="the cut at step 1 did not end within 1s; a server is lost") as raised:
            job.wait(WAIT_SECONDS)
        assert raised.value.slot == 0
    finally:
        cluster.end()


DROPS_ITS_SERVERS = """
import gc
import torch
import muster
import muster.torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = muster.torch.Embedding(4)
        self.last = torch.nn.Linear(4, 1)

    def forward(self, keys):
        return self.last(self.rows(keys))


net = Net()
served = muster.torch.ParameterServer(net, muster.SGD(lr=0.1))
net(torch.tensor([1, 2])).sum().backward()
served.step()
served.synchronize()
handle, weight = served._servers._close, net.last.weight
before = weight.detach().clone()
del served
gc.collect()
assert handle.alive, "the model needs its servers"
del net
gc.collect()
assert not handle.alive, "the tables are still open"
assert torch.equal(weight, before)
"""


def test_servers_are_left_with_the_model(programs, tmp_path):
    program = tmp_path / "drops.py"
    program.write_text(DROPS_ITS_SERVERS)
    programs.submit(program, workers=1, model__program__max_restarts=0).wait(WAIT_SECONDS)


MANY_ROWS = """
import sys
import torch
import muster.torch

rows, dim, batch = 500_000, 32, 25_000
table = muster.torch.Embedding(dim, std=0.0)
served = muster.torch.ParameterServer(table, muster.SGD(lr=1.0), cache_bytes=8 << 20)
keys = torch.randperm(rows, generator=torch.Generator().manual_seed(1)) * 7919
for _ in range(2):
    for part in keys.split(batch):
        (table(part) * (part % 97)[:, None]).sum().backward()
        served.step()
with torch.no_grad():
    for part in keys.split(batch):
        assert torch.equal(table(part), (-2.0 * (part % 97))[:, None].expand(-1, dim)), "other rows"
"""


def test_rows_are_eight_times_the_memory_that_they_may_take(installed, tmp_path):
    # 500,000 rows of 32 floats are 64 MB. The server has some more for the gradients of a step.
    cluster = ProgramCluster(tmp_path, installed, servers=1, slots=1, server_flags=["--memory", "32MiB"])
    try:
        program = tmp_path / "rows.py"
        program.write_text(MANY_ROWS)
        cluster.submit(program, workers=1).wait(WAIT_SECONDS)
    finally:
        cluster.end()


MISTAKES = """
import json
import os
import pathlib
import sys
import time
import torch
import muster
import muster.torch

rank, folder = int(os.environ["RANK"]), pathlib.Path(sys.argv[1])
said = {}


def attempt(name, call):
    try:
        call()
    except muster.Error as error:
        said[name] = str(error)


def serve(net=None, optimizer=None, **options):
    return muster.torch.ParameterServer(net or torch.nn.Linear(4, 1), optimizer or muster.SGD(lr=0.1), **options)


attempt("type", lambda: serve(torch.nn.Linear(4, 1).double()))
attempt("staleness", lambda: serve(staleness=-1))
attempt("stale and deterministic", lambda: serve(staleness=2, deterministic=True))
attempt("learning rate", lambda: serve(optimizer=muster.SGD(lr=-1.0)))
# None of them did harm.
net = torch.nn.Linear(4, 1)
served = serve(net, staleness=2)
net(torch.ones(1, 4)).sum().backward()
if rank == 1:
    # Makes neither the step nor a checkpoint.
    time.sleep(600)
served.step()


def plain_checkpoint():
    with muster.checkpoint(1) as checkpoint:
        (checkpoint / str(rank)).touch()


attempt("plain checkpoint", plain_checkpoint)
(folder / "said").write_text(json.dumps(said))
with served.checkpoint(timeout=1.0):
    pass
"""


@pytest.fixture(scope="module")
def mistakes(programs, tmp_path_factory):
    """What a job is told that makes one mistake after the other, by name; the last one ends it."""
    folder = tmp_path_factory.mktemp("mistakes")
    program = folder / "mistakes.py"
    program.write_text(MISTAKES)
    job = programs.submit(program, folder, model__program__max_restarts=0)
    with pytest.raises(muster.JobFailed) as raised:
        job.wait(WAIT_SECONDS)
    assert (folder / "said").exists(), str(raised.value)
    return {**json.loads((folder / "said").read_text()), "checkpoint alone": str(raised.value)}


@pytest.mark.parametrize(
    ("mistake", "says"),
    [
        ("type", "parameter weight is torch.float64 on cpu; servers take dense float32 on the CPU"),
        ("staleness", "staleness is -1; it must be a number of steps"),
        ("stale and deterministic", "update.deterministic needs staleness_bound 0"),
        ("learning rate", "learning_rate is -1"),
        ("plain checkpoint", "make them with ParameterServer.checkpoint, on all ranks"),
        ("checkpoint alone", "the cut at step 1 did not end within 1s; a server is lost, or "),
    ],
)
def test_mistakes_are_named(mistakes, mistake, says):
    assert says in mistakes[mistake]


OTHER_MODELS = """
import os
import torch
import muster
import muster.torch

muster.torch.ParameterServer(torch.nn.Linear(4, 1 + int(os.environ["RANK"])), muster.SGD(lr=0.1)).synchronize()
"""


def test_ranks_with_different_models_are_named(programs, tmp_path):
    program = tmp_path / "models.py"
    program.write_text(OTHER_MODELS)
    job = programs.submit(program, model__program__max_restarts=0)
    # The second names the initial values, which another rank may have made meanwhile.
    with pytest.raises(muster.JobFailed, match="with another schema, update or number of slots|it is of another model"):
        job.wait(WAIT_SECONDS)


def test_an_embedding_needs_servers_and_int64():
    with pytest.raises(muster.Error, match="has no servers; give the model that it is in to muster.torch.ParameterServer"):
        muster.torch.Embedding(4)(torch.tensor([1]))
    with pytest.raises(muster.InvalidArgument, match="neither parameters that require gradients nor a muster.torch.Embedding"):
        muster.torch.ParameterServer(torch.nn.ReLU(), muster.SGD(lr=0.1))


def test_options_that_cannot_be_are_named():
    net = torch.nn.Linear(1, 1)
    with pytest.raises(muster.InvalidArgument, match=r"optimizer is a torch.optim.sgd.SGD, but servers run .* muster.SGD\(lr=0.1"):
        muster.torch.ParameterServer(net, torch.optim.SGD(net.parameters(), 0.1))
    with pytest.raises(muster.InvalidArgument, match="staleness is nan; it must be a number of steps"):
        _parameter_server._update_of(float("nan"), False)


def test_a_job_without_servers_says_so(programs, tmp_path):
    program = tmp_path / "none.py"
    program.write_text("import torch, muster.torch\nmuster.torch.ParameterServer(torch.nn.Linear(1, 1), muster.SGD(lr=0.1))\n")
    job = programs.submit(program, workers=1, update=None, model__program__max_restarts=0)
    with pytest.raises(muster.JobFailed, match="submit it with update.dense PARAMETER_SERVER"):
        job.wait(WAIT_SECONDS)


@pytest.mark.parametrize("staleness", ["3", pytest.param("0", id="exhaustive-0"), pytest.param("inf", id="exhaustive-inf")])
def test_the_example_of_digits_learns(programs, staleness):
    program = ROOT / "examples/python/digits_servers.py"
    job = programs.submit(program, "--steps", "60", "--batch", "16", "--checkpoint-every", "25", "--staleness", staleness)
    job.wait(WAIT_SECONDS)
    losses = job.metrics("train/*")["train/loss"].values
    assert sum(losses[-15:]) < 0.9 * sum(losses[:15])
    assert [each.clock for each in job.checkpoints()] == [25, 50]


@pytest.mark.parametrize("data", ["drawn", "criteo"])
def test_the_example_of_deepfm_learns(programs, data):
    arguments = ["--steps", "60", "--staleness", "4"]
    if data == "criteo":
        if not os.environ.get("MUSTER_SHARED_DATA"):
            pytest.skip("MUSTER_SHARED_DATA names no folder with criteo_sample.csv")
        arguments += ["--data", str(pathlib.Path(os.environ["MUSTER_SHARED_DATA"], "criteo_sample.csv"))]
    job = programs.submit(ROOT / "examples/python/deepfm.py", *arguments)
    job.wait(WAIT_SECONDS)
    losses = job.metrics("train/*")["train/loss"].values
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])
    await_line(job, "over all")


def test_a_plain_script_has_the_servers_of_muster_up(installed, tmp_path):
    folder = tmp_path / "cluster"
    # Its own home, where the cluster is noted.
    environment = {**os.environ, "PYTHONPATH": str(installed), "HOME": str(tmp_path)}
    environment.pop("MUSTER_COORDINATOR", None)
    run(MUSTER, "up", "--servers", 1, "--workers", 1, "--data-dir", folder, "--allow-programs", env=environment)
    try:
        settings = {**SGD, "rows": True, "steps": 5, "checkpoint_every": 2, "out": str(tmp_path / "out.pt")}
        words = [PYTHON, PROGRAM, json.dumps(settings)]
        run(*words, env=environment)
        result = torch.load(tmp_path / "out.pt")
        expected = served_program.train_alone(lambda each: torch.optim.SGD(each, 0.05), result["first_rows"], 5)
        expected.pop("rows.weight")
        assert distance(result["state"], expected) <= 1e-5
        with muster.connect(folder=folder) as client:
            (job,) = client.jobs()
            job.wait(WAIT_SECONDS)
            assert job.status().spec.name == "served_program"
            assert [each.clock for each in job.checkpoints()] == [2, 4]
            # A script that fails takes its job with it.
            failed = subprocess.run([*map(str, words[:2]), json.dumps({**settings, "steps": "five"})], env=environment)
            assert failed.returncode != 0
            newest = client.jobs()[0]
            assert newest != job
            with pytest.raises(muster.JobFailed, match="ended without saying that it was done"):
                newest.wait(WAIT_SECONDS)
    finally:
        run(MUSTER, "down", "--data-dir", folder, env=environment)
