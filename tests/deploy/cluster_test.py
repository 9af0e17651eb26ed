"""A cluster as the manifests say it: its pods serve, train, come back, and stop."""

import json
import pathlib
import socket
import ssl
import subprocess
import sys
import urllib.request

import manifests
import pytest
from pods import GRACE_SECONDS, PROGRAMS, Cluster

JOB = """
name: "text"
model {{ ngram {{ orders: 2 embedding_dim: 8 hidden: 16 }} }}
data {{ text {{ path: "{data}" }} holdout: 0.1 }}
optimizer {{ name: "adagrad" learning_rate: 0.1 }}
update {{ {update} }}
workers: 2
batch_size: 256
stop {{ steps: {steps} }}
checkpoint {{ every_steps: {every} }}
seed: 1
"""
SERVERS = "dense: PARAMETER_SERVER sparse: PARAMETER_SERVER durability: EVERY_PUSH"
ALL_REDUCE = "dense: ALL_REDUCE"


@pytest.fixture(scope="module", params=["plain", "tls"])
def cluster(request, tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("volumes"), tls=request.param == "tls")
    try:
        cluster.start_all()
        text = cluster.volume("muster-data") / "text.txt"
        text.write_text("the quick brown fox jumps over the lazy dog. " * 4000)
        yield cluster
    finally:
        cluster.close()


def submit(cluster, update, steps=200, every=100):
    job = cluster.root / "job.textproto"
    text = cluster.volume("muster-data") / "text.txt"
    job.write_text(JOB.format(data=text, update=update, steps=steps, every=every))
    return json.loads(cluster.muster("submit", str(job), "--output", "json"))["job_id"]


def status(cluster, job):
    return json.loads(cluster.muster("status", job, "--output", "json"))


def live_daemons(cluster):
    """{id: address} of those that the coordinator knows."""
    daemons = json.loads(cluster.muster("cluster", "--output", "json"))["daemons"]
    return {each["id"]: each["address"] for each in daemons if each["live"]}


def test_all_daemons_have_joined(cluster):
    cluster.wait_until(lambda: set(live_daemons(cluster)) == set(cluster.pods) - {"muster-coordinator-0"})


def test_metrics_are_where_the_pods_annotation_says(cluster):
    pod = cluster.pods["muster-coordinator-0"]
    told = manifests.pod_template(pod.stateful_set)["metadata"]["annotations"]
    url = f"{told.get('prometheus.io/scheme', 'http')}://{pod.address}:{told['prometheus.io/port']}/metrics"
    authority = ssl.create_default_context(cafile=cluster.volume("muster-tls") / "ca.crt") if cluster.tls else None
    with urllib.request.urlopen(url, timeout=GRACE_SECONDS, context=authority) as page:
        lines = page.read().decode().splitlines()
    live = {line for line in lines if line.startswith("muster_daemon_live")}
    assert live == {
        f'muster_daemon_live{{daemon="{name}",kind="{name.split("-")[1]}"}} 1'
        for name in set(cluster.pods) - {pod.name}
    }


@pytest.mark.parametrize("update", [SERVERS, ALL_REDUCE], ids=["servers", "all-reduce"])
def test_jobs_train_and_leave_their_checkpoint_in_the_shared_volume(cluster, update):
    job = submit(cluster, update)
    cluster.muster("watch", job)
    folder = pathlib.Path(status(cluster, job)["checkpoint_uri"])
    assert folder == cluster.volume("muster-checkpoints") / "muster" / job / "200"
    assert (folder / "MANIFEST").exists()


def test_pods_that_are_killed_come_back_to_their_job(cluster):
    job = submit(cluster, SERVERS, steps=600, every=1000)
    for step, name in [(100, "muster-server-0"), (200, "muster-coordinator-0"), (300, "muster-server-1")]:
        cluster.wait_until(lambda: int(status(cluster, job)["progress"]["step"]) >= step)
        pod = cluster.pods[name]
        pod.kill()
        cluster.start(pod)
        cluster.wait_until(pod.serves)
    cluster.muster("watch", job)
    end = status(cluster, job)
    assert int(end["progress"]["step"]) == 600
    # Servers go on in place: no generation after the first.
    assert int(end["generation"]) == 1, end


def test_a_worker_on_all_addresses_is_known_by_its_hosts_name(cluster):
    # As in its pod, whose name is its host's; the other pods here listen on one address each.
    coordinator = f"--coordinator={cluster.hosts['muster-coordinator']}:7000"
    command = [PROGRAMS["muster-worker"], "--id=other", "--listen=0.0.0.0:0", "--data-root=/tmp", coordinator, *cluster.tls]
    worker = subprocess.Popen(command, env={}, cwd="/", stdout=sys.stderr, stderr=sys.stderr)
    try:
        cluster.wait_until(lambda: "other" in live_daemons(cluster))
        assert live_daemons(cluster)["other"].rsplit(":", 1)[0] == socket.gethostname()
    finally:
        worker.terminate()
        worker.wait(GRACE_SECONDS)


def test_every_pod_stops_cleanly_when_told_to(cluster):
    codes = {name: pod.stop() for name, pod in cluster.pods.items()}
    assert codes == dict.fromkeys(cluster.pods, 0)
