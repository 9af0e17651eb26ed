"""How much of a network jobs of four workers on four hosts use, by servers and by all-reduce, beside plain TCP.

Hosts are namespaces of this machine (hosts.py), so this needs root, and built programs:

    ./muster demo                   # builds them
    /usr/bin/python3 tests/deploy/hosts_benchmark.py --json

A job's figure is what its step sends over the busiest cable in either direction, divided by the step's time: by all-reduce
1.5 times the parameters from each worker, by servers twice the parameters to each of the two servers and as much from
it. Plain TCP is measured right before, over the same cables, with the same connections at the same time: each worker to the
next, or each worker to each server and back. Both are payload: no headers, nothing sent again.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import hosts
from hosts import Cable
from hosts_cluster import SERVERS, WORKERS, Cluster

CABLES = [Cable(rate=1000), Cable(rate=100), Cable(rate=10), Cable(rate=100, loss=1), Cable(rate=100, delay=20),
          Cable(rate=100, loss=1, delay=20)]  # yapf: disable
ROADS = {"servers": "PARAMETER_SERVER", "all-reduce": "ALL_REDUCE"}
LOAD = pathlib.Path(__file__).absolute().parent / "link_load.py"
LOAD_PORT = 9000
# Steps before those that are measured: connections become fast, memory is touched.
WARM_UP_STEPS = 4
ROW = ("| {cable} | {road} | {one_stream_mbits:.3g} | {plain_mbits:.3g} | {job_mbits:.3g} | {share:.0%} | "
       "{step_seconds:.3g} s |")  # yapf: disable
FEATURES, CLASSES = 256, 16


def width_for(cable):
    """Such that a step takes a tenth of a second or a few seconds."""
    return 256 if cable.rate <= 10 else 1024


def parameter_bytes(width):
    return 4 * (FEATURES * width + width + width * width + width + width * CLASSES + CLASSES)


def job_of(road, width, steps):
    parameters = parameter_bytes(width)
    return {
        "name": road,
        "model": {"mlp": {"hidden": [width, width], "classes": CLASSES}},
        "data": {"synthetic_classification": {"examples": 512, "features": FEATURES, "classes": CLASSES, "seed": 1}, "holdout": 0.1},
        "optimizer": {"name": "sgd", "learning_rate": 0.01},
        # Blocks small enough that both servers have a half of them.
        "update": {"dense": ROADS[road], "block_bytes": parameters // 64 // 4096 * 4096},
        "workers": len(WORKERS),
        # One example a worker: computing takes little.
        "batch_size": len(WORKERS),
        "stop": {"steps": steps},
        "seed": 1,
    }  # yapf: disable


def streams(road):
    """{host: those that it sends to} as the road's tasks do."""
    if road == "servers":
        return dict.fromkeys(WORKERS, SERVERS) | dict.fromkeys(SERVERS, WORKERS)
    return {worker: [after] for worker, after in zip(WORKERS, WORKERS[1:] + WORKERS[:1])}


def plain_rate(network, targets, receivers, seconds):
    """Mbit/s that come to each of the receivers, by their mean, when all hosts of {host: its targets} send at once."""
    # Interpreters must have started, and connections have found their speed.
    begin = time.time() + 3
    end = begin + seconds
    processes = {}
    for name in {*targets, *receivers}:
        goals = [f"{each}:{LOAD_PORT}" for each in targets.get(name, [])]
        command = [sys.executable, LOAD, LOAD_PORT, begin, end, *goals]
        processes[name] = network.hosts[name].start(*command, stdout=subprocess.PIPE)
    counts = {name: int(process.communicate()[0]) for name, process in processes.items()}
    return statistics.mean(counts[name] for name in receivers) * 8e-6 / seconds


def step_seconds(cluster, job):
    """The mean time of the steps after the first ones, by when the coordinator learnt of them."""
    series = {each["name"]: each["points"] for each in cluster.ask("history", job)["series"]}
    # Of steps that were told together, the last.
    told = {int(each["unix_ms"]): int(each["last_step"]) for each in series["train/loss"]}
    (begin, first), *_, (end, last) = [each for each in told.items() if each[1] >= WARM_UP_STEPS]
    return (end - begin) / 1000 / (last - first)


def measure(cluster, cable, road, options):
    receivers = SERVERS if road == "servers" else WORKERS
    plain = plain_rate(cluster.network, streams(road), receivers, options.seconds)
    width = width_for(cable)
    share_of_parameters = len(WORKERS) / len(SERVERS) if road == "servers" else 2 * (len(WORKERS) - 1) / len(WORKERS)
    megabits = parameter_bytes(width) * share_of_parameters * 8e-6
    steps = max(6, round(options.job_seconds * plain / megabits))
    job = cluster.submit(job_of(road, width, WARM_UP_STEPS + steps))
    cluster.finish(job)
    seconds = step_seconds(cluster, job)
    rate = megabits / seconds
    return {
        "cable": str(cable),
        "road": road,
        "parameter_bytes": parameter_bytes(width),
        "plain_mbits": plain,
        "job_mbits": rate,
        "share": rate / plain,
        "step_seconds": seconds,
        "generation": int(cluster.status(job)["generation"]),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON objects, one a line")
    parser.add_argument("--job-seconds", type=float, default=10, help="that a job would take if it used all of the network")
    parser.add_argument("--seconds", type=float, default=5, help="of plain TCP")
    parser.add_argument("--congestion-control", help="one of net.ipv4.tcp_available_congestion_control; else the system's")
    parser.add_argument("--built", default=pathlib.Path(__file__).resolve().parents[2] / "bazel-bin", help="folder of built programs")
    options = parser.parse_args()
    lacking = hosts.missing()
    if lacking is not None:
        sys.exit(lacking)
    if not options.json:
        print("| cable | road | one stream | plain TCP | job | share | step |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(folder, options.built, options.congestion_control)
        try:
            for cable in CABLES:
                cluster.network.replace_cables(cable)
                one = plain_rate(cluster.network, {"w0": ["w1"]}, ["w1"], options.seconds)
                for road in ROADS:
                    row = {"one_stream_mbits": one} | measure(cluster, cable, road, options)
                    print(json.dumps(row) if options.json else ROW.format(**row), flush=True)
        finally:
            cluster.close()


if __name__ == "__main__":
    main()
