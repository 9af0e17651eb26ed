"""What the tests of the package `muster` share: the package, installed by pip without a network, and a cluster."""

import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path.cwd()
MUSTER = ROOT / "client/muster"
NATIVE = [pathlib.Path(f"bazel-bin/worker/c_abi/libmuster_{name}.so") for name in ("native", "servers")]
PYTHON = "/usr/bin/python3"
# Without these flags pip asks an index for what a package needs.
OFFLINE = ["--no-index", "--no-build-isolation", "--no-deps", "--quiet", "--disable-pip-version-check"]


def run(*words, **options):
    """Standard output of a command, which has to succeed."""
    done = subprocess.run([str(word) for word in words], text=True, capture_output=True, **options)
    assert done.returncode == 0, f"{words}:\n{done.stdout}{done.stderr}"
    return done.stdout


def copy_of_sources(folder):
    """Copies what a checkout has for the package, since a build writes beside its sources; returns python/ in it."""
    for name in ("python", "proto"):
        shutil.copytree(ROOT / name, folder / name)
    (folder / "common/base").mkdir(parents=True)
    for name in ("LICENSE", "common/base/version.h"):
        shutil.copyfile(ROOT / name, folder / name)
    # Copies what Bazel built, to where a checkout has it.
    for each in NATIVE:
        (folder / each.parent).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / each.relative_to("bazel-bin"), folder / each)
    return folder / "python"


def pytest_configure(config):
    """Installs the package into a folder from which this process, too, imports it."""
    folder = pathlib.Path(os.environ["TEST_TMPDIR"], "installed")
    sources = copy_of_sources(pathlib.Path(os.environ["TEST_TMPDIR"], "sources"))
    run(PYTHON, "-m", "pip", "install", *OFFLINE, "--target", folder, sources)
    sys.path.insert(0, str(folder))
    config.installed = folder


@pytest.fixture(scope="session")
def installed(pytestconfig):
    """The folder with the installed package."""
    return pytestconfig.installed


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """A home of our own, where `muster up` notes the cluster and a client finds it."""
    folder = tmp_path_factory.mktemp("home")
    os.environ["HOME"] = str(folder)
    os.environ.pop("MUSTER_COORDINATOR", None)
    return folder


@pytest.fixture(scope="session")
def cluster(home):
    """The folder of a cluster with one server and two workers, which have two slots each."""
    folder = home / "cluster"
    run(MUSTER, "up", "--servers", 1, "--workers", 2, "--slots", 2, "--data-dir", folder)
    yield folder
    run(MUSTER, "down", "--data-dir", folder)


@pytest.fixture
def client(cluster):
    """A client of the cluster, found as the program `muster` finds it."""
    import muster

    with muster.connect() as client:
        yield client


@pytest.fixture(scope="session")
def cluster_for_programs(tmp_path_factory):
    """A coordinator and a worker that take programs; the client of them."""
    import muster

    folder = tmp_path_factory.mktemp("programs")
    token = folder / "token"
    token.write_text("only-for-this-test-0123456789\n")
    token.chmod(0o600)
    listen = ["--listen", "127.0.0.1:0"]
    coordinator = subprocess.Popen(
        [ROOT / "server/coordinator/muster-coordinator", *listen, "--data-dir", folder / "coordinator",
         "--program-token-file", token],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    address = re.search(r"listening on (\S+)", coordinator.stdout.readline()).group(1)
    worker = subprocess.Popen([ROOT / "worker/runtime/muster-worker", *listen, "--id", "w0", "--coordinator", address,
                               "--slots", "2", "--allow-programs", "--program-token-file", token])  # fmt: skip
    try:
        with muster.connect(address, token_file=token) as client:
            yield client
    finally:
        for each in (worker, coordinator):
            each.terminate()
            each.wait()
        coordinator.stdout.close()


@pytest.fixture
def ranks(tmp_path):
    """Runs a function on ranks of torch.distributed, as torch_ranks.run_ranks does."""
    import torch_ranks

    return functools.partial(torch_ranks.run_ranks, tmp_path)
