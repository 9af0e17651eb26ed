"""The pods of deploy/kubernetes as processes of this machine, each on a loopback address of its own.

A pod's process gets the command line and the environment that its manifest says, and nothing else; names of services
and pods become addresses, and paths of volumes become folders. Ports stay what they are.
"""

import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

import grpc
import manifests
from certificates import certificate_flags, make_certificates

PROGRAMS = {
    path.name: path.absolute()
    for path in map(pathlib.Path, ["client/muster", "server/coordinator/muster-coordinator", "server/muster-server",
                                   "worker/runtime/muster-worker"])
}
# For processes that are no pods'.
GRACE_SECONDS = 30
# What startupProbe allows is more.
START_SECONDS = 60


NAMESPACE = manifests.kustomization()["namespace"]


class Pod:
    def __init__(self, stateful_set, index, address):
        self.stateful_set = stateful_set
        self.name = f"{manifests.name_of(stateful_set)}-{index}"
        self.address = address
        self.process = None

    def hosts(self):
        """Names that lead to it alone: its own, and those of the services that select nothing else."""
        spec = self.stateful_set["spec"]
        own = f"{self.name}.{spec['serviceName']}.{NAMESPACE}.svc"
        if spec["replicas"] > 1:
            return [own]
        labels = manifests.pod_template(self.stateful_set)["metadata"]["labels"]
        services = manifests.resources("Service")
        return [own] + [manifests.name_of(each) for each in services if manifests.selects(each["spec"]["selector"], labels)]

    def folders(self, root):
        """{path in the pod: folder here}, made if need be. A claim or a secret is one folder for all pods."""
        shared = {}
        for volume in manifests.pod_template(self.stateful_set)["spec"].get("volumes", []):
            if "persistentVolumeClaim" in volume:
                shared[volume["name"]] = volume["persistentVolumeClaim"]["claimName"]
            elif "secret" in volume:
                shared[volume["name"]] = volume["secret"]["secretName"]
        found = {}
        for mount in manifests.container(self.stateful_set)["volumeMounts"]:
            folder = root / shared.get(mount["name"], f"{self.name}-{mount['name']}")
            folder.mkdir(exist_ok=True)
            found[mount["mountPath"]] = folder
        return found

    def start(self, root, hosts):
        container = manifests.container(self.stateful_set)
        command = [str(PROGRAMS[container["command"][0]])]
        for argument in container["args"]:
            text = argument.replace("$(POD_NAME)", self.name).replace("$(POD_NAMESPACE)", NAMESPACE)
            text = with_addresses(text.replace("0.0.0.0", self.address), hosts)
            command.append(with_folders(text, self.folders(root)))
        self.process = subprocess.Popen(command, env={}, cwd="/", stdout=sys.stderr, stderr=sys.stderr)

    def serves(self):
        """What the manifest's readiness probe finds."""
        port, way = manifests.probed_port(self.stateful_set)
        if way == "tcpSocket":
            with socket.socket() as connection:
                return connection.connect_ex((self.address, port)) == 0
        with grpc.insecure_channel(f"{self.address}:{port}") as channel:
            try:
                return channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=5) == b"\x08\x01"
            except grpc.RpcError:
                return False

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        """Its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(manifests.grace_seconds(self.stateful_set))


def with_addresses(text, hosts):
    """With an address in place of each known host before a port."""
    return re.sub(r"([a-z][a-z0-9.-]*)(?=:\d)", lambda match: hosts.get(match[1], match[1]), text)


def with_folders(text, folders):
    """With the folder here in place of the path in the pod that a flag's value is, or is below, if any."""
    return re.sub(r"(?<==)(/[^/]+)(?=/|$)", lambda match: str(folders.get(match[1], match[1])), text)


class Cluster:
    """All pods of the manifests. `root`: an empty folder for the volumes."""

    def __init__(self, root, tls):
        self.root = root
        # Where no other test's cluster is: a process has one number of 22 bits.
        network = f"127.{1 + (os.getpid() >> 8) % 253}.{os.getpid() % 256}"
        self.pods, self.hosts = {}, {}
        for stateful_set in manifests.stateful_sets(tls):
            for index in range(stateful_set["spec"]["replicas"]):
                pod = Pod(stateful_set, index, f"{network}.{len(self.pods) + 1}")
                self.pods[pod.name] = pod
                self.hosts.update(dict.fromkeys(pod.hosts(), pod.address))
        self.tls = []
        if tls:
            folder = self.volume("muster-tls")
            folder.mkdir()
            # Here hosts have no other names.
            make_certificates(folder, [f"IP:{pod.address}" for pod in self.pods.values()])
            self.tls = certificate_flags(folder)

    def start_all(self):
        for pod in self.pods.values():
            self.start(pod)
        self.wait_until(lambda: all(pod.serves() for pod in self.pods.values()))

    def start(self, pod):
        pod.start(self.root, self.hosts)

    def wait_until(self, holds):
        deadline = time.monotonic() + START_SECONDS
        while not holds():
            assert time.monotonic() < deadline, "the pods are not where they should be"
            time.sleep(0.1)

    def volume(self, claim):
        return self.root / claim

    def muster(self, *arguments):
        """Runs a command as `kubectl exec muster-coordinator-0 -- muster …` would: its output."""
        pod = self.pods["muster-coordinator-0"]
        said = {
            each["name"]: with_addresses(each["value"], self.hosts)
            for each in manifests.container(pod.stateful_set)["env"]
        }
        command = [str(PROGRAMS["muster"]), *self.tls, *arguments]
        run = subprocess.run(command, env=said, cwd="/", capture_output=True, text=True)
        assert run.returncode == 0, (arguments, run.stdout, run.stderr)
        return run.stdout

    def close(self):
        for pod in self.pods.values():
            if pod.process is not None and pod.process.poll() is None:
                pod.kill()
