"""A cluster on hosts of its own: coordinator, two servers, and workers, one a host, by names, with certificates."""

import json
import pathlib
import subprocess
import time

import certificates
import hosts

COORDINATOR = "coordinator"
SERVERS = ["s0", "s1"]
WORKERS = ["w0", "w1", "w2", "w3"]
# Far more than anything here takes, on a busy machine.
PATIENCE_SECONDS = 120
PROGRAMS = ["client/muster", "server/coordinator/muster-coordinator", "server/muster-server", "worker/runtime/muster-worker"]
# Where a stopped daemon ends by itself.
GRACE_SECONDS = 30


def values_of(file):
    """The values of a safetensors file, without its header, which names the job."""
    content = file.read_bytes()
    return content[8 + int.from_bytes(content[:8], "little"):]


class Cluster:
    """`folder` is empty, and the hosts' shared file system; `built` has the programs as Bazel does."""

    def __init__(self, folder, built, congestion_control=None):
        self.folder = pathlib.Path(folder)
        self._programs = {path.name: path for path in (pathlib.Path(built).absolute() / each for each in PROGRAMS)}
        self._daemons = []
        names = [COORDINATOR, *SERVERS, *WORKERS]
        certificates.make_certificates(self.folder, [f"DNS:{name}" for name in names])
        self._tls = certificates.certificate_flags(self.folder)
        self.network = hosts.Network(self.folder, names, congestion_control=congestion_control)
        checkpoints = self.folder / "checkpoints"
        checkpoints.mkdir()
        self._start(COORDINATOR, "muster-coordinator", "--listen=0.0.0.0:7000", f"--checkpoint-root={checkpoints}", "--lease-ms=60000",
                    f"--data-dir={self.folder}/coordinator")  # yapf: disable
        for name in SERVERS:
            self._start(name, "muster-server", f"--id={name}", "--listen=0.0.0.0:7001", f"--coordinator={COORDINATOR}:7000",
                        f"--data-root={checkpoints}", f"--data-dir={self.folder}/{name}")  # yapf: disable
        for name in WORKERS:
            self._start(name, "muster-worker", f"--id={name}", "--listen=0.0.0.0:7002", f"--coordinator={COORDINATOR}:7000",
                        f"--data-root={checkpoints}", "--slots=2")  # yapf: disable
        expected = {*SERVERS, *WORKERS}
        self.wait_until(lambda: {each["id"] for each in self.daemons() if each["live"]} == expected)

    def _start(self, host, program, *flags):
        log = (self.folder / f"{host}.log").open("w")
        command = [self._programs[program], *flags, *self._tls]
        self._daemons.append(self.network.hosts[host].start(*command, stdout=log, stderr=log))
        log.close()

    def muster(self, *arguments):
        """A command on the coordinator's host."""
        flags = [f"--coordinator={COORDINATOR}:7000", *self._tls]
        return self.network.hosts[COORDINATOR].run(self._programs["muster"], *arguments, *flags)

    def ask(self, *arguments):
        """The JSON that a command prints."""
        return json.loads(self.muster(*arguments, "--output=json"))

    def daemons(self):
        try:
            return self.ask("cluster")["daemons"]
        except RuntimeError:
            return []

    def write_job(self, job):
        """A file with a job of such fields."""
        file = self.folder / f"{job['name']}.json"
        file.write_text(json.dumps(job))
        return file

    def submit(self, job):
        """The id of a job of such fields."""
        return self.ask("submit", self.write_job(job))["job_id"]

    def status(self, job):
        return self.ask("status", job)

    def step(self, job):
        return int(self.status(job)["progress"]["step"])

    def finish(self, job):
        """Waits for a job's success."""
        self.muster("watch", job)

    def weights(self, job):
        """The values that a job has made."""
        file = self.folder / "weights"
        self.muster("export", job, "--out", file, "--force")
        return values_of(file)

    def wait_until(self, holds):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            if time.monotonic() > deadline:
                raise TimeoutError("\n".join(f"{log}:\n{log.read_text()[-2000:]}" for log in self.folder.glob("*.log")))
            time.sleep(0.1)

    def close(self):
        """The exit codes of all daemons."""
        for each in self._daemons:
            each.terminate()
        codes = []
        for each in self._daemons:
            try:
                codes.append(each.wait(GRACE_SECONDS))
            except subprocess.TimeoutExpired:
                each.kill()
                codes.append(each.wait())
        self.network.close()
        return codes
