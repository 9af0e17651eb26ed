"""Stores what a coordinator, a server and a checkpoint look like on disk, as this build writes them, for
stored_formats_test.py. From the repository's root, after a build of the programs in cluster.py:

    MUSTER_PROGRAMS=bazel-bin python3 tests/operations/store_formats.py tests/operations/stored/NAME.tar.xz
"""

import json
import pathlib
import sys
import tarfile
import tempfile

from cluster import Cluster, step_of, wait_until
from weights import sums_of_weights

JOB = """
name: "%s"
owner: "ada"
model { mlp { hidden: 8 classes: 3 } }
data { synthetic_classification { examples: 300 features: 8 classes: 3 } holdout: 0.2 }
optimizer { name: "adam" learning_rate: 0.01 }
update { partitions: 1 durability: EVERY_PUSH deterministic: true }
workers: 1
threads_per_worker: 1
batch_size: 16
stop { steps: %d }
evaluation { metric: "accuracy" every_steps: 20 }
checkpoint { every_steps: 20 }
seed: 7
"""


def submit(cluster, name, steps):
    file = cluster.folder / f"{name}.textproto"
    file.write_text(JOB % (name, steps))
    return json.loads(cluster.muster("submit", file, "--output", "json"))["job_id"]


def store(path):
    with tempfile.TemporaryDirectory(prefix="muster-stored-") as name:
        folder = pathlib.Path(name)
        cluster = Cluster(folder)
        try:
            cluster.start_coordinator()
            cluster.start_server("s0")
            cluster.start_worker("w0")
            ended = submit(cluster, "ended", 60)
            wait_until(lambda: cluster.status(ended)["state"] == "SUCCEEDED", "the job ends")
            cluster.muster("export", ended, "--out", folder / "weights.safetensors")
            evaluation = json.loads(cluster.muster("evaluate", ended, "--output", "json"))
            # It is stopped under way: its tables are in the server's image and log.
            going = submit(cluster, "going", 1500)
            wait_until(lambda: step_of(cluster.status(going)) > 20, "the second job trains")
            for each in ("w0", "s0", "coordinator"):
                cluster.stop(each)
        finally:
            cluster.end()
        expected = {
            "ended": ended,
            "going": going,
            "evaluation": {field: evaluation[field] for field in ("metric", "value", "loss")},
            "sums_of_weights": sums_of_weights(folder / "weights.safetensors"),
        }
        (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
        with tarfile.open(path, "w:xz") as tar:
            for each in ("expected.json", "coordinator", "s0", "checkpoints"):
                # Without what RocksDB has logged.
                tar.add(folder / each, each, filter=lambda entry: None if pathlib.Path(entry.name).name.startswith("LOG") else entry)


if __name__ == "__main__":
    store(sys.argv[1])
