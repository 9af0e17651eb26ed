"""Folders that earlier builds have written, in stored/: today's programs go on with them. Those of later releases are refused."""

import json
import pathlib
import subprocess
import tarfile

import pytest
from cluster import COORDINATOR, SERVER, Cluster, step_of, wait_until
from weights import sums_of_weights

STORED = sorted(pathlib.Path("tests/operations/stored").glob("*.tar.xz"))


def unpacked(tar, folder):
    with tarfile.open(tar) as opened:
        opened.extractall(folder)
    return folder


@pytest.fixture
def cluster(tmp_path, request):
    """A cluster on the stored folders, which are under another path than when they were written."""
    cluster = Cluster(unpacked(request.param, tmp_path))
    yield cluster
    cluster.end()


def test_there_is_something_stored():
    assert STORED


@pytest.mark.parametrize("cluster", STORED, ids=lambda tar: tar.name, indirect=True)
def test_jobs_of_an_earlier_build_go_on(cluster, tmp_path):
    expected = json.loads((tmp_path / "expected.json").read_text())
    cluster.start_coordinator()
    states = {job["job_id"]: job["state"] for job in json.loads(cluster.muster("list", "--output", "json"))["jobs"]}
    assert states[expected["ended"]] == "SUCCEEDED"
    assert states[expected["going"]] in ("RUNNING", "RECOVERING")

    cluster.muster("checkpoint", "verify", expected["ended"])
    cluster.muster("export", expected["ended"], "--out", tmp_path / "weights.safetensors")
    assert sums_of_weights(tmp_path / "weights.safetensors") == pytest.approx(expected["sums_of_weights"])
    assert json.loads(cluster.muster("history", expected["ended"], "--output", "json"))

    # The server opens the tables of the job that was under way, which goes on in place.
    before = step_of(cluster.status(expected["going"]))
    cluster.start_server("s0")
    cluster.start_worker("w0")
    ended = wait_until(lambda: (now := cluster.status(expected["going"]))["state"] in ("SUCCEEDED", "FAILED") and now, "it ends")
    assert ended["state"] == "SUCCEEDED" and int(ended["generation"]) == 1, ended
    assert step_of(ended) == 1500 > before >= 20

    evaluation = json.loads(cluster.muster("evaluate", expected["ended"], "--output", "json"))
    for field, value in expected["evaluation"].items():
        assert evaluation[field] == (value if isinstance(value, str) else pytest.approx(value, rel=1e-4)), field


@pytest.mark.parametrize(
    "program, name, mark",
    [(COORDINATOR, "coordinator", "MUSTER_COORDINATOR"), (SERVER, "s0", "MUSTER_SERVER")],
    ids=("coordinator", "server"),
)
def test_a_folder_of_a_later_release_is_refused_by_name(tmp_path, program, name, mark):
    folder = unpacked(STORED[-1], tmp_path) / name
    text = (folder / mark).read_text()
    (folder / mark).write_text(text.replace("\nformat 1\n", "\nformat 2\n"))
    assert (folder / mark).read_text() != text
    before = {each: each.stat().st_mtime_ns for each in folder.rglob("*")}
    done = subprocess.run([program, "--listen=127.0.0.1:0", f"--data-dir={folder}"], text=True, capture_output=True)
    assert done.returncode != 0
    assert (
        f"{folder}/{mark} says format version 2, written by a later release of Muster; this one reads formats up to 1" in done.stderr
    ), done.stderr
    assert {each: each.stat().st_mtime_ns for each in folder.rglob("*")} == before, "it was changed"
