"""A coordinator, servers and a worker that take programs, as processes that a test may end one by one."""

import re
import signal
import subprocess

from conftest import PYTHON, ROOT

import muster

TOKEN = "only-for-this-test-0123456789"
LISTEN = ["--listen", "127.0.0.1:0"]


class ProgramCluster:
    """The daemons; `client` submits to them."""

    def __init__(self, folder, installed, servers=2, slots=4, server_flags=()):
        self.folder = folder
        self.installed = installed
        self.server_flags = server_flags
        token = folder / "token"
        token.write_text(TOKEN + "\n")
        token.chmod(0o600)
        self.processes = {}
        coordinator = self.start(
            "coordinator", ROOT / "server/coordinator/muster-coordinator", *LISTEN, "--data-dir", folder / "coordinator",
            "--checkpoint-root", folder / "checkpoints", "--program-token-file", token, stdout=subprocess.PIPE,
        )  # fmt: skip
        self.address = re.search(r"listening on (\S+)", coordinator.stdout.readline()).group(1)
        for each in range(servers):
            self.start_server(f"s{each}")
        self.start(
            "w0", ROOT / "worker/runtime/muster-worker", *LISTEN, "--id", "w0", "--coordinator", self.address,
            "--slots", slots, "--allow-programs", "--program-token-file", token,
        )  # fmt: skip
        self.client = muster.connect(self.address, token_file=token)

    def start(self, name, *words, **options):
        self.processes[name] = subprocess.Popen([str(word) for word in words], text=True, **options)
        return self.processes[name]

    def start_server(self, name):
        self.start(name, ROOT / "server/muster-server", *LISTEN, "--id", name, "--coordinator", self.address,
                   "--data-dir", self.folder / name, *self.server_flags)  # fmt: skip

    def kill(self, name):
        self.processes[name].send_signal(signal.SIGKILL)
        self.processes[name].wait()

    def submit(self, program, *arguments, workers=2, memory=2 << 30, **changes):
        """Submits a job that runs a Python file; `changes` are fields to set, with `__` for a dot."""
        draft = muster.Job.from_fields({
            "name": "served",
            "workers": workers,
            "model": {
                "program": {
                    "command": [PYTHON, program, *arguments],
                    "environment": {"PYTHONPATH": self.installed},
                    "memory_bytes": memory,
                }
            },
            "update": {"dense": "PARAMETER_SERVER"},
        })
        for path, value in changes.items():
            draft.set(path.replace("__", "."), value)
        return self.client.submit(draft)

    def end(self):
        self.client.close()
        # The worker first, so that its programs end.
        for name in sorted(self.processes, reverse=True):
            each = self.processes[name]
            each.terminate()
            each.wait()
            if each.stdout is not None:
                each.stdout.close()
