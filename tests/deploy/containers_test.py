"""The image, made and run; and its pods, from `kubectl kustomize` of deploy/kubernetes: they train, come back, and stop.

Needs Debian's buildah and podman, kubectl, and root's right to run containers; otherwise every case is skipped."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import containers
import manifests
import pytest
from pods import PROGRAMS

sys.path.insert(0, str(pathlib.Path("tools").absolute()))
import image  # noqa: E402
import package  # noqa: E402

BUILT = [pathlib.Path(each) for each in package.PROGRAMS]
RELEASE, _ = package.version_of(pathlib.Path("client/muster").resolve())
NAME = f"{image.NAME}:{RELEASE}"
JOB = """
name: "text"
model {{ ngram {{ orders: 2 embedding_dim: 8 hidden: 16 }} }}
data {{ text {{ path: "/data/text.txt" }} holdout: 0.1 }}
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
TEXT = b"the quick brown fox jumps over the lazy dog. " * 4000
PROGRAM_JOB = """
name: pi
workers: 2
model:
  program:
    command: [/data/pi]
    memory_bytes: 67108864
"""


@pytest.fixture(scope="module")
def podman():
    missing = [each for each in containers.TOOLS if shutil.which(each) is None]
    if missing:
        pytest.skip(f"containers need {', '.join(missing)}: apt-get install --no-install-recommends buildah podman runc")
    if os.geteuid() != 0:
        pytest.skip("containers with a network of their own need root")
    podman = containers.Podman()
    try:
        if podman.refusal is not None:
            pytest.skip(f"containers cannot be run here: {podman.refusal}")
        yield podman
    finally:
        podman.close()


@pytest.fixture(scope="module")
def archive(podman):
    """The image's file, which Podman has loaded."""
    file = podman.folder / "image.tar"
    made = subprocess.run(["/usr/bin/python3", "tools/image.py", "--built", ".", "--out", file], capture_output=True, text=True)
    if any(each in made.stderr for each in ["Unable to fetch", "Failed to fetch", "apt has no list"]):
        pytest.skip("apt cannot fetch Debian's packages")
    assert made.returncode == 0, made.stderr
    assert f"is the image {NAME}\n" in made.stdout
    podman.run("load", "--input", file)
    return file


def in_image(podman, *script):
    """What commands of a shell print in a container of the image, as its user, with nothing that it can write to."""
    return podman.run("run", "--rm", "--network=none", "--read-only", "--read-only-tmpfs=false", NAME, "sh", "-c", "; ".join(script))


def test_the_image_is_small_and_says_what_it_is(podman, archive):
    # Before it is compressed.
    assert archive.stat().st_size <= 200e6
    (said,) = json.loads(podman.run("image", "inspect", NAME))
    labels = {key.removeprefix("org.opencontainers.image."): value for key, value in said["Labels"].items()}
    assert set(labels) - {"io.buildah.version"} == {"title", "version", "revision", "licenses"}
    assert labels["version"] == RELEASE
    assert said["User"] == f"{image.USER}:{image.USER}"
    assert said["Config"]["Cmd"] == ["muster", "help"]
    assert len(said["RootFS"]["Layers"]) == 1


def test_its_programs_run_as_its_user_on_a_root_that_is_read_only(podman, archive):
    expected = "".join(package.run(path.resolve(), "--version") for path in BUILT)
    assert in_image(podman, *(f"{path.name} --version" for path in BUILT), "id -un") == expected + "muster\n"


def test_its_packages_are_what_the_programs_are_linked_with(podman, archive):
    status, _, licences = in_image(podman, "cat /var/lib/dpkg/status", "echo LICENCES", "ls /usr/share/doc").partition("LICENCES\n")
    packages = set(re.findall(r"^Package: (.*)$", status, re.MULTILINE))
    assert set(image.packages_of(BUILT)) <= packages
    # The rest is what libraries depend on, and a shell.
    assert {each for each in packages if not each.startswith("lib")} <= {
        "busybox", "gcc-12-base", "ocl-icd-libopencl1", "zlib1g"}  # yapf: disable
    assert packages <= set(licences.split())


@pytest.fixture(scope="module")
def local(podman, archive):
    """The overlay for one node, as docs/kubernetes.md starts it."""
    cluster = containers.Cluster(podman, "overlays/local")
    try:
        cluster.start_all()
        yield cluster
    finally:
        cluster.close()


def test_on_one_node_the_first_job_trains_exhaustive(local):
    local.copy("text.txt", TEXT)
    done = local.muster("submit", "/opt/muster/examples/text.textproto", "--data", "/data/text.txt", "--set", "workers=1",
                        "--set", "stop.epochs=1", "--watch")  # yapf: disable
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(pod.probe("livenessProbe") for pod in local.pods.values())


def test_on_one_node_all_pods_stop_in_time_exhaustive(local):
    assert local.stop_all() == dict.fromkeys(local.pods, 0)


@pytest.fixture(scope="module")
def cluster(podman, archive):
    cluster = containers.Cluster(podman, "base", ("tls", "programs"))
    try:
        cluster.start_all()
        cluster.copy("text.txt", TEXT)
        yield cluster
    finally:
        cluster.close()


def live_daemons(cluster):
    return {each["id"] for each in cluster.ask("cluster")["daemons"] if each["live"]}


def all_are_members(cluster):
    return live_daemons(cluster) == set(cluster.pods) - {"muster-coordinator-0"}


def submit(cluster, update, steps=200, every=100):
    cluster.copy("job.textproto", JOB.format(update=update, steps=steps, every=every).encode())
    return cluster.ask("submit", "/data/job.textproto")["job_id"]


def status(cluster, job):
    return cluster.ask("status", job)


def step_of(cluster, job):
    return int(status(cluster, job).get("progress", {}).get("step", 0))


def finish(cluster, job, steps):
    done = cluster.muster("watch", job)
    assert done.returncode == 0, done.stdout + done.stderr
    assert step_of(cluster, job) == steps


def test_all_daemons_join_under_their_names(cluster):
    cluster.wait_until(lambda: all_are_members(cluster))


@pytest.mark.parametrize("update", [SERVERS, ALL_REDUCE], ids=["servers", "all-reduce"])
def test_jobs_train_and_leave_their_checkpoint_in_the_shared_volume(cluster, update):
    job = submit(cluster, update)
    finish(cluster, job, 200)
    assert (cluster.root / "muster-checkpoints/muster" / job / "200/MANIFEST").exists()


def test_a_program_runs_for_those_who_know_the_token(cluster, tmp_path):
    subprocess.run(["cc", "-O2", "-o", tmp_path / "pi", "examples/python/pi.c"], check=True)
    cluster.copy("pi", (tmp_path / "pi").read_bytes())
    cluster.copy("pi.yaml", PROGRAM_JOB.encode())
    refused = cluster.muster("submit", "/data/pi.yaml", environment=["MUSTER_PROGRAM_TOKEN_FILE="])
    assert refused.returncode != 0 and "token" in refused.stderr
    done = cluster.muster("submit", "/data/pi.yaml", "--watch")
    assert done.returncode == 0, done.stdout + done.stderr
    logs = cluster.muster("logs", done.stdout.split()[0])
    assert "pi is about 3.1" in logs.stdout, logs.stdout + logs.stderr


def train_while_pods_end(cluster, end, names):
    """A job trains to its end though `end` takes these pods away one after another; each comes back under its name."""
    steps = 100 * (len(names) + 2)
    job = submit(cluster, SERVERS, steps=steps, every=10 * steps)
    for number, name in enumerate(names):
        cluster.wait_until(lambda: step_of(cluster, job) >= 100 * (number + 1))
        pod = cluster.pods[name]
        before = pod.address
        end(pod)
        cluster.start(pod)
        # Only services have addresses that stay.
        assert (pod.address == before) == (pod is cluster.coordinator)
    finish(cluster, job, steps)
    # Servers go on in place: no generation after the first.
    assert int(status(cluster, job)["generation"]) == 1
    cluster.wait_until(lambda: all_are_members(cluster))


def test_a_killed_pod_comes_back_under_its_name(cluster):
    train_while_pods_end(cluster, containers.Pod.kill, ["muster-server-1"])


def test_pods_of_lost_nodes_come_back_under_their_names_exhaustive(cluster):
    train_while_pods_end(cluster, containers.Pod.lose, ["muster-server-1", "muster-coordinator-0", "muster-worker-0"])


def tensors(cluster, job):
    """The weights of a job's last checkpoint, as bytes, with the text that says which tensor is where."""
    cluster.ask("export", job, "--out", f"/data/{job}.safetensors")
    data = (cluster.root / "muster-data" / f"{job}.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    head = json.loads(data[8:8 + length])
    head.pop("__metadata__", None)
    assert head
    return head, data[8 + length:]


@pytest.mark.parametrize("update", [SERVERS, ALL_REDUCE], ids=["servers", "all-reduce"])
def test_a_job_trains_on_while_each_pod_is_restarted_exhaustive(cluster, update):
    """As by `kubectl rollout restart`; then the job has the weights of one that nothing disturbed."""
    update += " deterministic: true"
    job = submit(cluster, update, steps=10**8, every=200)
    for pod in cluster.pods.values():
        # What was restarted before takes part again.
        step = step_of(cluster, job)
        cluster.wait_until(lambda: step_of(cluster, job) > step + 50)
        assert cluster.stop(pod) == {pod.name: 0}
        cluster.start(pod)
        cluster.wait_until(lambda: all_are_members(cluster))
    cluster.muster("cancel", job)
    cluster.wait_until(lambda: status(cluster, job)["state"] == "CANCELLED")
    steps = int(pathlib.Path(status(cluster, job)["checkpoint_uri"]).name)
    undisturbed = submit(cluster, update, steps=steps, every=steps)
    finish(cluster, undisturbed, steps)
    assert tensors(cluster, job) == tensors(cluster, undisturbed)


def test_all_pods_stop_in_time(cluster):
    assert all(pod.probe("livenessProbe") for pod in cluster.pods.values())
    assert cluster.stop_all() == dict.fromkeys(cluster.pods, 0)
