"""A program whose parameters are on servers. parameter_server_test.py runs it as a job, by hand, and computes the same in one
process with `train_alone`.

    served_program.py '{"optimizer": "SGD", "lr": 0.1, "steps": 20, "out": "/tmp/out.pt"}'
"""

import json
import os
import pathlib
import sys
import time

import torch

import muster
import muster.torch

KEYS, FIELDS, BATCH = 50, 3, 16
# Any 64 bits are a key.
FIRST_KEY = -(2**63) + 11


class Net(torch.nn.Module):
    """Two linear layers, one of them without a call of its own, behind rows of a table if `rows` gives one."""

    def __init__(self, rows):
        super().__init__()
        self.rows = rows
        width = 8 + (0 if rows is None else 4 * FIELDS)
        self.shift = torch.nn.Parameter(torch.zeros(width))
        self.first = torch.nn.Sequential(torch.nn.Linear(width, 16), torch.nn.BatchNorm1d(16, affine=False), torch.nn.Tanh())
        self.last = torch.nn.Linear(16, 1)
        self.unused = torch.nn.Linear(2, 2)
        self.fixed = torch.nn.Parameter(torch.ones(1), requires_grad=False)

    def forward(self, x, keys):
        if self.rows is not None:
            x = torch.cat([x, self.rows(keys).flatten(1)], 1)
        return torch.nn.functional.linear(self.first(x + self.shift), self.last.weight, self.last.bias) * self.fixed


def make_net(rows):
    torch.manual_seed(7)
    net = Net(rows)
    # The mean and variance of a part of the batch are not those of all of it.
    net.eval()
    return net


def batch_of(step):
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(BATCH, 8, generator=generator)
    keys = torch.randint(0, KEYS, (BATCH, FIELDS), generator=generator)
    return x, keys, x.sum(1, keepdim=True) + (keys % 5).sum(1, keepdim=True)


def loss_of(net, step, part=slice(None), key_of=lambda keys: keys):
    x, keys, y = batch_of(step)
    return ((net(x[part], key_of(keys[part])) - y[part]) ** 2).mean()


def train_alone(optimizer, first_rows, steps):
    """The parameters after `steps` steps in one process. `optimizer` makes PyTorch's own of parameters."""
    rows = None
    if first_rows is not None:
        rows = torch.nn.Embedding(KEYS, 4)
        rows.weight.data = first_rows.clone()
    net = make_net(rows)
    made = optimizer(net.parameters())
    for step in range(steps):
        made.zero_grad()
        loss_of(net, step).backward()
        made.step()
    return net.state_dict()


def run(settings):
    """Trains one rank, and writes what rank 0 has at the end into the file `out`."""
    net = make_net(muster.torch.Embedding(4, std=0.5) if settings.get("rows") else None)
    optimizer = getattr(muster, settings["optimizer"])(lr=settings["lr"], **settings.get("options", {}))
    served = muster.torch.ParameterServer(
        net,
        optimizer,
        staleness=settings.get("staleness", 0),
        deterministic=settings.get("deterministic", False),
        job=settings.get("job"),
    )
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    start, restarts = served.clock, int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    # In one write, since lines of several ranks go to one pipe.
    print(f"rank {rank} starts at {start}\n", end="", flush=True)
    resumed = muster.resume()
    assert resumed is None or (resumed.step == start and (resumed.folder / "step").read_text() == str(start))
    all_keys = torch.arange(KEYS) + FIRST_KEY

    def rows():
        with torch.no_grad():
            return None if net.rows is None else net.rows(all_keys)

    first_rows = rows()
    every = settings.get("checkpoint_every", 0)
    part = slice(rank * BATCH // size, (rank + 1) * BATCH // size)
    losses = []
    while served.clock < settings["steps"]:
        step = served.clock
        if every and step > start and step % every == 0:
            with served.checkpoint() as folder:
                if rank == 0:
                    (folder / "step").write_text(str(step))
        if settings.get("pause_at") == step and rank == 0:
            pathlib.Path(settings["out"] + ".paused").touch()
            while not pathlib.Path(settings["out"] + ".go").exists():
                time.sleep(0.01)
        if settings.get("accumulate"):
            with served.accumulate():
                loss_of(net, step, part, lambda keys: keys + FIRST_KEY).mul(0.25).backward()
            loss_of(net, step, part, lambda keys: keys + FIRST_KEY).mul(0.75).backward()
            losses.append(0.0)
        else:
            loss = loss_of(net, step, part, lambda keys: keys + FIRST_KEY)
            loss.backward()
            losses.append(loss.item())
        if settings.get("dies_at") == [rank, step] and restarts == 0:
            # Its gradients of this step are out, and it has not closed the step.
            os._exit(3)
        served.step()
        muster.report(served.clock, loss=losses[-1], examples=BATCH // size)
    if rank == 0:
        result = {"first_rows": first_rows, "rows": rows(), "state": net.state_dict(), "losses": losses, "start": start}
        torch.save(result, settings["out"])


if __name__ == "__main__":
    torch.set_num_threads(1)
    run(json.loads(sys.argv[1]))
