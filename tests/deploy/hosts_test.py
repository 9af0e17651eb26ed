"""Jobs of four workers on four hosts, over cables that are slow, lossy or long, make what they make on one machine, bit for bit."""

import os
import pathlib
import subprocess
import time

import hosts
import pytest
from hosts import Cable
from hosts_cluster import PROGRAMS, WORKERS, Cluster, values_of

STEPS = 12
# The parameters of the jobs' model.
DENSE_BYTES = 4 * (32 * 128 + 128 + 128 * 128 + 128 + 128 * 8 + 8)
ROADS = ["PARAMETER_SERVER", "ALL_REDUCE"]


def job_of(name, road, steps=STEPS):
    return {
        "name": name,
        "model": {"mlp": {"hidden": [128, 128], "classes": 8}},
        "data": {"synthetic_classification": {"examples": 1024, "features": 32, "classes": 8, "seed": 7}, "holdout": 0.1},
        "optimizer": {"name": "adam", "learning_rate": 0.001},
        # Blocks on both servers.
        "update": {"dense": road, "deterministic": True, "block_bytes": 8192},
        "workers": 4,
        "batch_size": 64,
        "stop": {"steps": steps},
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


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("cable", [Cable(rate=1000), Cable(rate=10), Cable(rate=100, loss=1), Cable(rate=100, delay=20)], ids=str)
def test_jobs_make_the_same_weights_as_on_one_machine(cluster, alone, cable, road):
    cluster.network.replace_cables(cable)
    job = cluster.submit(job_of("far", road))
    cluster.finish(job)
    assert int(cluster.status(job)["generation"]) == 1
    assert cluster.weights(job) == alone[road]
    for name in WORKERS:
        arrived, left = cluster.network.hosts[name].carried()
        # Gradients and weights have gone by the cable, and by nothing that the hosts share: each step, at the least as much
        # as the weights to each worker and the gradients from it.
        assert min(arrived, left) > STEPS * DENSE_BYTES, (name, arrived, left)


@pytest.mark.parametrize("road", ROADS)
def test_a_job_goes_on_when_a_cable_was_out_for_seconds(cluster, alone, road):
    cluster.network.replace_cables(Cable(rate=10))
    host = cluster.network.hosts["w2"]
    job = cluster.submit(job_of("cut", road))
    cluster.wait_until(lambda: int(cluster.status(job)["progress"]["step"]) >= 2)
    cluster.network.set_port(host, "down")
    time.sleep(3)
    cluster.network.set_port(host, "up")
    cluster.finish(job)
    # The lease is longer: nobody has taken the worker for lost.
    assert int(cluster.status(job)["generation"]) == 1
    assert cluster.weights(job) == alone[road]


def test_no_server_was_reached_except_over_the_network(cluster):
    requests = {}
    for line in cluster.muster("metrics").splitlines():
        if line.startswith("muster_server_channel_requests_total"):
            kind, _, value = line.partition('kind="')[2].partition('"} ')
            requests[kind] = requests.get(kind, 0) + float(value)
    assert {kind for kind, number in requests.items() if number} == {"tls"}, requests
