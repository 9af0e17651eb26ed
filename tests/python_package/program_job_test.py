"""A Python program as a job: it trains with the backend "muster", reports, loses a rank, and goes on from its checkpoint."""

import pytest
from conftest import PYTHON

import muster

pytest.importorskip("torch")
WAIT_SECONDS = 240

PROGRAM = """
import os
import torch
import torch.distributed as dist
import muster
import muster.torch

rank = int(os.environ["RANK"])
dist.init_process_group("muster")
net = torch.nn.Linear(4, 1)
trained = torch.nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.SGD(net.parameters(), 0.05)
resumed = muster.resume()
start = 0
if resumed is not None:
    net.load_state_dict(torch.load(resumed.folder / "model.pt"))
    start = resumed.step
# In one write, since lines of several ranks go to one pipe.
print(f"rank {rank} starts at {start}\\n", end="", flush=True)
generator = torch.Generator().manual_seed(rank)
for step in range(start + 1, 61):
    x = torch.randn(16, 4, generator=generator)
    loss = ((trained(x) - x.sum(1, keepdim=True)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    muster.report(step, loss=loss, examples=16)
    if step % 20 == 0 and rank == 0:
        with muster.checkpoint(step, whole=True) as folder:
            torch.save(net.state_dict(), folder / "model.pt")
    if step == 45 and rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os._exit(3)
"""


def test_a_program_trains_reports_and_goes_on_after_a_loss(cluster_for_programs, installed, tmp_path):
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    draft = muster.Job.from_fields({
        "name": "program",
        "workers": 2,
        "model": {
            "program": {
                "command": [PYTHON, program],
                "environment": {"PYTHONPATH": installed},
                "memory_bytes": 1 << 30,
            }
        },
    })
    with muster.connect(cluster_for_programs.address) as without_token, pytest.raises(muster.Error) as raised:
        without_token.submit(draft)
    assert raised.value.code == "PERMISSION_DENIED"
    job = cluster_for_programs.submit(draft)
    job.wait(WAIT_SECONDS)
    history = job.metrics("train/*")
    loss = history["train/loss"]
    assert loss.steps[-1] == 60 and loss.values[-1] < loss.values[0] / 100
    assert [(each.step, each.reached >= 44) for each in history.roll_backs] == [(40, True)]
    assert [each.clock for each in job.checkpoints()] == [40, 60]
    text = "".join(job.logs())
    assert "rank 1 starts at 0" in text and "rank 0 starts at 40" in text


LOOPS = """
import os
import torch
import torch.distributed as dist
import muster.torch

dist.init_process_group("muster")
mark = torch.zeros(1)
while not mark:
    mark[0] = os.path.exists(os.environ["MARK"])
    dist.all_reduce(mark)
"""


def test_a_user_is_shown_the_last_calls_of_each_process(cluster_for_programs, installed, tmp_path):
    grpc = pytest.importorskip("grpc")
    from muster.v1 import job_service_pb2, job_service_pb2_grpc

    program = tmp_path / "loops.py"
    program.write_text(LOOPS)
    draft = muster.Job.from_fields({
        "name": "loops",
        "workers": 2,
        "model": {
            "program": {
                "command": [PYTHON, program],
                "environment": {"PYTHONPATH": installed, "MARK": tmp_path / "mark"},
                "memory_bytes": 1 << 30,
            }
        },
    })
    job = cluster_for_programs.submit(draft)
    with grpc.insecure_channel(cluster_for_programs.address) as channel:
        stub = job_service_pb2_grpc.JobServiceStub(channel)
        slots = []
        while len(slots) < 2 or not all(len(each.calls) == 1000 for each in slots):
            assert job.state() != "FAILED", "".join(job.logs())
            slots = stub.ListCollectives(job_service_pb2.GetJobRequest(job_id=job.id)).slots
    (tmp_path / "mark").touch()
    job.wait(WAIT_SECONDS)
    for each in slots:
        last = each.calls[0]
        assert (last.group, last.operation, last.dtype, last.reduction, last.count) == ("world", "all_reduce", "f32", "sum", 1)
