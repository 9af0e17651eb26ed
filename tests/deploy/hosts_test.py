"""Jobs of four workers on four hosts, over cables that are slow, lossy or long, make what they make on one machine, bit for bit."""

import os
import pathlib
import subprocess
import time

import hosts
import pytest
from hosts import Cable
from hosts_cluster import PROGRAMS, WORKERS, Cluster, values_of

STEPS = 30
# The parameters of the jobs' model.
DENSE_BYTES = 4 * (32 * 64 + 64 + 64 * 64 + 64 + 64 * 8 + 8)
ROADS = ["PARAMETER_SERVER", "ALL_REDUCE"]
CABLES = [Cable(rate=1000), Cable(rate=10), Cable(rate=100, loss=1), Cable(rate=100, delay=20)]


def job_of(name, road):
    return {
        "name": name,
        "model": {"mlp": {"hidden": [64, 64], "classes": 8}},
        "data": {"synthetic_classification": {"examples": 1024, "features": 32, "classes": 8, "seed": 7}, "holdout": 0.1},
        "optimizer": {"name": "adam", "learning_rate": 0.001},
        # Blocks on both servers.
        "update": {"dense": road, "deterministic": True, "block_bytes": 4096},
        "workers": 4,
        "batch_size": 64,
        "stop": {"steps": STEPS},
        "seed": 1,
    }


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    lacking = hosts.missing()
    if lacking is not None:
        pytest.skip(lacking)
    cluster = Cluster(tmp_path_factory.mktemp("hosts"), ".")
    try:
        yield cluster
    finally:
        codes = cluster.close()
    # Every daemon has stopped as it should.
    assert set(codes) == {0}


@pytest.fixture(scope="module")
def alone(cluster):
    """The weights that each road's job makes where all tasks are on one machine."""

    def muster(*arguments):
        command = [pathlib.Path(PROGRAMS[0]).absolute(), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, env={"PATH": os.environ["PATH"]})
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)

    folder = cluster.folder / "alone"
    weights = {}
    muster("up", "--servers=2", "--workers=4", "--data-dir", folder)
    try:
        for road in ROADS:
            file = cluster.write_job(job_of(f"alone_{road}", road))
            muster("submit", file, "--watch", "--data-dir", folder)
            muster("export", f"alone_{road}", "--out", folder / road, "--data-dir", folder)
            weights[road] = values_of(folder / road)
    finally:
        muster("down", "--data-dir", folder)
    return weights


def submit_both(cluster):
    """{road: job} for both roads, which train at the same time, each on all hosts."""
    return {road: cluster.submit(job_of(road.lower(), road)) for road in ROADS}


def check_results(cluster, jobs, alone):
    for road, job in jobs.items():
        cluster.finish(job)
        status = cluster.status(job)
        # No task was lost, nor taken for lost.
        assert int(status["generation"]) == 1, status
        assert cluster.weights(job) == alone[road], road


@pytest.mark.parametrize("cable", CABLES, ids=str)
def test_jobs_make_the_same_weights_as_on_one_machine(cluster, alone, cable):
    cluster.network.replace_cables(cable)
    begin = time.monotonic()
    check_results(cluster, submit_both(cluster), alone)
    seconds = time.monotonic() - begin
    for name in WORKERS:
        arrived, left = cluster.network.hosts[name].carried()
        # Gradients and weights have gone by the cable, and by nothing that the hosts share: in each step by servers all of
        # them, and by all-reduce 1.5 times as many.
        assert min(arrived, left) > 2.5 * STEPS * DENSE_BYTES, (name, arrived, left)
        # The cable is as it says.
        assert cable.rate * 1e6 * seconds > 8 * max(arrived, left)
        assert (cluster.network.hosts[name].lost() > 0) == (cable.loss > 0)
    assert cluster.network.hosts["w0"].round_trip("w1") >= 2 * cable.delay / 1000


def test_jobs_go_on_when_a_cable_was_out_for_seconds(cluster, alone):
    # So slow that the jobs are still at it.
    cluster.network.replace_cables(Cable(rate=5))
    jobs = submit_both(cluster)
    cluster.wait_until(lambda: all(0 < cluster.step(job) for job in jobs.values()))
    cluster.network.set_port(cluster.network.hosts["w2"], "down")
    time.sleep(3)
    assert all(cluster.step(job) < STEPS for job in jobs.values())
    cluster.network.set_port(cluster.network.hosts["w2"], "up")
    check_results(cluster, jobs, alone)


def test_no_server_was_reached_except_over_the_network(cluster):
    requests = {}
    for line in cluster.muster("metrics").splitlines():
        if line.startswith("muster_server_channel_requests_total"):
            kind, _, value = line.partition('kind="')[2].partition('"} ')
            requests[kind] = requests.get(kind, 0) + float(value)
    assert {kind for kind, number in requests.items() if number} == {"tls"}, requests
