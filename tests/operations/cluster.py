"""Daemons as processes that are started and stopped one by one, each with a log in the cluster's folder."""

import json
import os
import pathlib
import re
import subprocess
import time

# Where the programs are: among a test's files, or in bazel-bin.
PROGRAMS = pathlib.Path(os.environ.get("MUSTER_PROGRAMS", ".")).resolve()
COORDINATOR = PROGRAMS / "server/coordinator/muster-coordinator"
SERVER = PROGRAMS / "server/muster-server"
WORKER = PROGRAMS / "worker/runtime/muster-worker"
MUSTER = PROGRAMS / "client/muster"


def wait_until(true, what):
    """Returns what `true` does, once that is no longer false. The test runner bounds the wait."""
    printed = time.monotonic()
    while not (value := true()):
        if time.monotonic() - printed > 20:
            printed = time.monotonic()
            print(f"still waits: {what}", flush=True)
        time.sleep(0.05)
    return value


class Cluster:
    """Its daemons are in the folders of `folder` that have their names."""

    def __init__(self, folder):
        self.folder = folder
        self.processes = {}
        self.address = None

    def start(self, name, program, *flags):
        log = open(self.folder / f"{name}.log", "a")
        words = [program, "--listen=127.0.0.1:0", *flags]
        self.processes[name] = subprocess.Popen([str(word) for word in words], stdout=log, stderr=log)
        log.close()

    def start_coordinator(self):
        self.start("coordinator", COORDINATOR, f"--data-dir={self.folder}/coordinator",
                   f"--checkpoint-root={self.folder}/checkpoints")  # fmt: skip
        listening = wait_until(lambda: re.search(r"listening on (\S+)", self.log("coordinator")), "the coordinator starts")
        self.address = listening.group(1)

    def start_server(self, name):
        self.start(name, SERVER, f"--id={name}", f"--coordinator={self.address}", f"--data-dir={self.folder}/{name}")

    def start_worker(self, name):
        self.start(name, WORKER, f"--id={name}", f"--coordinator={self.address}", "--slots=2", "--processors=2")

    def log(self, name):
        return (self.folder / f"{name}.log").read_text()

    def stop(self, name):
        process = self.processes.pop(name)
        process.terminate()
        assert process.wait() == 0, self.log(name)

    def end(self):
        for process in self.processes.values():
            process.kill()
            process.wait()

    def muster(self, *words):
        """Standard output of a command, which has to succeed."""
        command = [MUSTER, "--coordinator", self.address, *words]
        done = subprocess.run([str(word) for word in command], text=True, capture_output=True)
        assert done.returncode == 0, f"{words}:\n{done.stdout}{done.stderr}"
        return done.stdout

    def status(self, job):
        return json.loads(self.muster("status", job, "--output", "json"))


def step_of(status):
    return int(status.get("progress", {}).get("step", 0))
