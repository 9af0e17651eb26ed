"""Times torch.distributed's backend "muster" beside Gloo, through PyTorch, on ranks of this machine.

    python3 python/benchmarks/torch_backend.py [--ranks 2] [--only ROWS] [--json]

Each rank is a process with one thread, and has a group of each backend. The two take turns, a few calls each, so that what
else the machine does meets both alike. All-reduces are synchronous calls of float32, in place; the steps of
DistributedDataParallel are those of examples/python: the network of digits.py and the GPT of gpt.py, forward, backward and
optimizer. Times are the slowest rank's of each call; the ratio is Gloo's median by Muster's.
"""

import argparse
import contextlib
import json
import multiprocessing
import pathlib
import queue
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

BACKENDS = ("muster", "gloo")
# Bytes, calls of a turn, and turns.
ALL_REDUCES = ((16, 200, 10), (64 << 10, 100, 10), (1 << 20, 30, 10), (64 << 20, 3, 7))
STEPS_OF_TURN = 3
TURNS_OF_STEPS = 15
WARM_UP = 3

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples/python"))


def times_of(call, count, group):
    """Returns the times of `count` calls, each begun by all ranks together, on the slowest rank."""
    times = []
    for _ in range(count):
        dist.barrier(group)
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    slowest = torch.tensor(times, dtype=torch.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX, group=group)
    return slowest.tolist()


def by_turns(calls, count, turns, groups):
    """Returns the times of each backend's call."""
    for backend, call in calls.items():
        times_of(call, WARM_UP, groups[backend])
    times = {backend: [] for backend in calls}
    for turn in range(turns):
        for backend in sorted(calls, reverse=turn % 2 == 0):
            times[backend] += times_of(calls[backend], count, groups[backend])
    return times


def all_reduce(bytes_, groups):
    tensors = {backend: torch.ones(bytes_ // 4) for backend in groups}

    def call_of(backend):
        def call():
            dist.all_reduce(tensors[backend], group=groups[backend])

        return call

    return {backend: call_of(backend) for backend in groups}


def make_digits():
    import digits

    generator = torch.Generator().manual_seed(dist.get_rank())
    images = torch.rand(32, 1, 28, 28, generator=generator)
    labels = torch.randint(0, 10, (32,), generator=generator)
    return digits.Net(), lambda net: functional.cross_entropy(net(images), labels)


def make_gpt():
    import gpt

    generator = torch.Generator().manual_seed(dist.get_rank())
    tokens = torch.randint(0, 256, (1, 33), generator=generator)
    return gpt.GPT(layers=6, width=384, heads=6, context=32), lambda net: net(tokens[:, :-1], tokens[:, 1:])


def steps(make, groups):
    """Returns a step of training for each backend."""

    def step_of(backend):
        torch.manual_seed(0)
        net, loss_of = make()
        trained = DistributedDataParallel(net, process_group=groups[backend])
        optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)

        def step():
            optimizer.zero_grad()
            loss_of(trained).backward()
            optimizer.step()

        return step

    return {backend: step_of(backend) for backend in groups}


def row_of(times):
    """Returns medians and least times in microseconds, and Gloo's median by Muster's."""
    row = {f"{backend}_us": round(statistics.median(each) * 1e6, 1) for backend, each in times.items()}
    row.update({f"{backend}_least_us": round(min(each) * 1e6, 1) for backend, each in times.items()})
    row["ratio"] = round(row["gloo_us"] / row["muster_us"], 2)
    return row


def run_rank(rank, options, store, results):
    import muster.torch  # noqa: F401

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=options.ranks)
    groups = {backend: dist.new_group(backend=backend) for backend in BACKENDS}

    def measure(name, make_calls, count, turns):
        if not name.startswith(options.only):
            return
        row = row_of(by_turns(make_calls(), count, turns, groups))
        if rank == 0:
            results.put((name, row))

    for bytes_, count, turns in ALL_REDUCES:
        measure(f"all_reduce_{bytes_}", lambda bytes_=bytes_: all_reduce(bytes_, groups), count, turns)
    for name, make in (("ddp_digits", make_digits), ("ddp_gpt", make_gpt)):
        measure(name, lambda make=make: steps(make, groups), STEPS_OF_TURN, TURNS_OF_STEPS)
    if rank == 0:
        results.put(None)
    dist.barrier()


def take(results, ranks):
    """Returns the next result; ends the program if a rank has failed."""
    while True:
        with contextlib.suppress(queue.Empty):
            return results.get(timeout=1)
        if any(each.exitcode for each in ranks):
            sys.exit("a rank has failed")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--only", default="", help="first letters of the rows to measure, such as ddp")
    parser.add_argument("--json", action="store_true", help="print one object in JSON")
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        arguments = (options, f"{folder}/store", results)
        ranks = [context.Process(target=run_rank, args=(rank, *arguments), daemon=True) for rank in range(options.ranks)]
        for each in ranks:
            each.start()
        if not options.json:
            print(f"{'':20} {'muster':>18} {'gloo':>18}  ratio   medians in us (least)")
        table = {}
        for name, row in iter(lambda: take(results, ranks), None):
            table[name] = row
            if not options.json:
                cells = [f"{row[f'{backend}_us']:.0f} ({row[f'{backend}_least_us']:.0f})" for backend in BACKENDS]
                print(f"{name:20} {cells[0]:>18} {cells[1]:>18} {row['ratio']:6.2f}", flush=True)
        for each in ranks:
            each.join()
    if options.json:
        print(json.dumps({"ranks": options.ranks, "torch": torch.__version__, "results": table}))


if __name__ == "__main__":
    main()
