"""How fast DeepFM is with rows on servers, against PyTorch with nn.Embedding(sparse=True) in the same process, by turns.

26 fields, vectors of 16, batches of 2048, a million rows, Adagrad. Needs the package, and a cluster:

    muster up --allow-programs --servers 1 --workers 1
    python3 tests/python_package/embedding_benchmark.py --json
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

import torch
from torch.nn import functional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples/python"))
import deepfm  # noqa: E402

import muster  # noqa: E402
import muster.torch  # noqa: E402

BATCH, DIM, ROWS = 2048, 16, 1 << 20
HIDDEN = (400, 400, 400)


def batches(count):
    """Batches whose keys follow a power law."""
    generator = torch.Generator().manual_seed(3)
    for _ in range(count):
        keys = (torch.rand(BATCH, deepfm.FIELDS, generator=generator) ** 4 * (ROWS // deepfm.FIELDS)).long()
        keys = keys * deepfm.FIELDS + torch.arange(deepfm.FIELDS)
        numbers = torch.rand(BATCH, deepfm.NUMERIC, generator=generator)
        yield keys, numbers, torch.randint(0, 2, (BATCH,), generator=generator).float()


def seconds_of(model, data, end_step):
    """The time of a pass over the batches."""
    begin = time.perf_counter()
    for keys, numbers, labels in data:
        functional.binary_cross_entropy_with_logits(model(keys, numbers), labels).backward()
        end_step()
    return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--steps", type=int, default=30, help="of a turn")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0, help="of PyTorch; 0: as many as it takes by itself")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    data = list(batches(options.steps))
    torch.manual_seed(0)
    alone = deepfm.DeepFm(torch.nn.Embedding(ROWS, DIM + 1, sparse=True), DIM, HIDDEN)
    optimizer = torch.optim.Adagrad(alone.parameters(), 0.02)
    model = deepfm.DeepFm(muster.torch.Embedding(DIM + 1), DIM, HIDDEN)
    served = muster.torch.ParameterServer(model, muster.Adagrad(lr=0.02))

    def end_step():
        optimizer.step()
        optimizer.zero_grad()

    times = {"local": [], "served": []}
    for turn in range(options.turns + 1):
        local = seconds_of(alone, data, end_step)
        remote = seconds_of(model, data, served.step)
        # The first turn makes rows, threads and memory.
        if turn > 0:
            times["local"].append(local)
            times["served"].append(remote)
    examples = BATCH * options.steps
    speeds = {name: examples / statistics.median(each) for name, each in times.items()}
    result = {
        "examples_per_second": speeds,
        "milliseconds_per_step": {name: 1000 * BATCH / speed for name, speed in speeds.items()},
        "ratio": speeds["served"] / speeds["local"],
        "ratios": [local / remote for local, remote in zip(times["local"], times["served"])],
        "threads": torch.get_num_threads(),
    }
    if options.json:
        print(json.dumps(result))
    else:
        for name, speed in speeds.items():
            print(f"{name:8} {speed:10.0f} examples/s, {1000 * BATCH / speed:7.1f} ms a step")
        print(f"with rows on servers {result['ratio']:.0%} of local speed")


if __name__ == "__main__":
    main()
