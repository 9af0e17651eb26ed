"""Pods that `kubectl kustomize` makes of deploy/kubernetes, as containers of Podman.

A pod is one container with the manifest's image, command, environment, user, rights, limits, mounts and probes, in a network,
process tree and host name of its own. What Kubernetes does around it is done here: claims and secrets are folders that the
pod's group owns, names of services and pods lead to addresses, probes are asked from outside. A pod that comes back has
its name and volumes, and another address than before, unless a service has that address. A field of a pod that is not known here is an error, so that no
manifest says something that these pods pass over.
"""

import ipaddress
import json
import os
import pathlib
import re
import resource
import shutil
import socket
import subprocess
import tempfile
import time

import grpc
import manifests
from certificates import CERTIFICATE_FILES, make_certificates
from pods import GRACE_SECONDS

TOOLS = ["buildah", "kubectl", "podman"]
# What a pod may take to become ready, or a job to get somewhere.
PATIENCE_SECONDS = 120
# A container that a killed test leaves behind ends by itself.
LIFE_SECONDS = 900
# Fields for which something is done here, and fields that are of scheduling or of Kubernetes' own services.
POD_FIELDS = {"containers", "securityContext", "volumes"}
PLACING_FIELDS = {"automountServiceAccountToken", "enableServiceLinks", "nodeSelector", "serviceAccountName",
                  "topologySpreadConstraints"}  # yapf: disable
CONTAINER_FIELDS = {"args", "command", "env", "image", "imagePullPolicy", "livenessProbe", "name", "ports", "readinessProbe",
                    "resources", "securityContext", "startupProbe", "volumeMounts"}  # yapf: disable
MEMORY_UNITS = {"Mi": 2**20, "Gi": 2**30}


def only_known(fields, known):
    assert set(fields) <= known, f"containers.py does not know {set(fields) - known}"
    return fields


class Podman:
    """Podman with images, containers and networks of its own, which are gone after close()."""

    def __init__(self):
        # A short path: sockets are below it.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-pods-"))
        (self.folder / "networks").mkdir()
        # Podman's network needs iptables, and runc is beside it, where a test's path may not lead.
        self._env = os.environ | {"PATH": os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"}
        self._env["CONTAINERS_STORAGE_CONF"] = str(self.folder / "storage.conf")
        self._env["CONTAINERS_CONF"] = str(self.folder / "containers.conf")
        (self.folder / "storage.conf").write_text(
            f'[storage]\ndriver = "overlay"\ngraphroot = "{self.folder}/images"\nrunroot = "{self.folder}/run"\n')
        # No more than this process may have: whoever lacks the right to raise limits cannot run Podman's default.
        files = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 20000)
        (self.folder / "containers.conf").write_text(f"""
[containers]
default_ulimits = ["nofile={files}:{files}", "nproc=4096:4096"]
[engine]
events_logger = "none"
lock_type = "file"
tmp_dir = "{self.folder}/engine-tmp"
[network]
network_config_dir = "{self.folder}/networks"
""")
        # One that others are not likely to have.
        self.network = f"muster{os.getpid()}"
        self._runtime = []
        self.refusal = self._find_runtime()

    def run(self, *arguments, **options):
        """Its standard output; fails with what it said if it fails."""
        done = self.attempt(*arguments, **options)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    def attempt(self, *arguments, **options):
        command = ["podman", *self._runtime, *map(str, arguments)]
        return subprocess.run(command, env=self._env, capture_output=True, text=True, **options)

    def _find_runtime(self):
        """Takes the first runtime that works here; what the last one said if none does, otherwise None."""
        made = self.attempt("network", "create", self.network)
        if made.returncode != 0:
            return made.stderr
        (found,) = json.loads(self.run("network", "inspect", self.network))
        self.subnet = ipaddress.ip_network(found["subnets"][0]["subnet"])
        root = self.folder / "trial"
        (root / "usr").mkdir(parents=True)
        for name in ("bin", "lib", "lib64"):
            (root / name).symlink_to(f"usr/{name}")
        said = "neither crun nor runc is installed"
        for runtime in ["crun", "runc"]:
            if shutil.which(runtime, path=self._env["PATH"]) is None:
                continue
            self._runtime = ["--runtime", runtime]
            done = self.attempt("run", "--rm", "--network", self.network, "--ip", self.subnet[2], "--memory", 2**26, "--cpus", 1,
                                "--volume", "/usr:/usr:ro", "--rootfs", root, "/bin/true")  # yapf: disable
            if done.returncode == 0:
                return None
            said = done.stderr
        return said

    def close(self):
        self.attempt("rm", "--all", "--force", "--time", "0")
        self.attempt("network", "rm", self.network)
        self.attempt("rmi", "--all", "--force")
        shutil.rmtree(self.folder, ignore_errors=True)


class Pod:
    """One of a StatefulSet's. `cluster` has its volumes and addresses."""

    def __init__(self, cluster, stateful_set, index):
        self.cluster = cluster
        self.stateful_set = stateful_set
        self.spec = only_known(manifests.pod_template(stateful_set)["spec"], POD_FIELDS | PLACING_FIELDS)
        self.container = only_known(manifests.container(stateful_set), CONTAINER_FIELDS)
        self.name = f"{manifests.name_of(stateful_set)}-{index}"
        self.address = None

    def own_name(self):
        spec = self.stateful_set["spec"]
        return f"{self.name}.{spec['serviceName']}.{self.stateful_set['metadata']['namespace']}.svc"

    def services(self):
        """Names of services with an address of their own that lead to it. They lead to nothing else, since one has one pod."""
        labels = manifests.pod_template(self.stateful_set)["metadata"]["labels"]
        found = [each for each in self.cluster.services.values()
                 if each["spec"].get("clusterIP") != "None" and manifests.selects(each["spec"]["selector"], labels)]  # yapf: disable
        assert not found or self.stateful_set["spec"]["replicas"] == 1
        return [manifests.name_of(each) for each in found]

    def variables(self):
        fields = {"metadata.name": self.name, "metadata.namespace": self.stateful_set["metadata"]["namespace"]}
        found = {}
        for each in self.container.get("env", []):
            field = each.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            found[each["name"]] = each["value"] if field is None else fields[field]
        return found

    def command(self):
        """Command and arguments, with variables put in as Kubernetes does."""
        variables = self.variables()
        texts = self.container["command"] + self.container["args"]
        return [re.sub(r"\$\((\w+)\)", lambda match: variables[match[1]], each) for each in texts]

    def group(self):
        return only_known(self.spec["securityContext"], {"fsGroup", "fsGroupChangePolicy", "runAsGroup", "runAsNonRoot",
                                                         "runAsUser", "seccompProfile"})["fsGroup"]  # yapf: disable

    def folders(self):
        """{name of a volume: folder here}, made if need be."""
        found = {}
        for each in self.stateful_set["spec"].get("volumeClaimTemplates", []):
            name = manifests.name_of(each)
            found[name] = self.cluster.claim(f"{name}-{self.name}", self.group())
        for each in self.spec.get("volumes", []):
            (kind,) = set(each) - {"name"}
            said = each[kind]
            if kind == "persistentVolumeClaim":
                found[each["name"]] = self.cluster.claim(only_known(said, {"claimName", "readOnly"})["claimName"], self.group())
            elif kind == "secret":
                only_known(said, {"defaultMode", "secretName"})
                found[each["name"]] = self.cluster.secret(said["secretName"], said["defaultMode"], self.group())
            else:
                assert (kind, said) == ("emptyDir", {}), f"containers.py does not know the volume {each}"
                folder = self.cluster.root / f"empty-{self.name}-{each['name']}"
                shutil.rmtree(folder, ignore_errors=True)
                found[each["name"]] = self.cluster.claim(folder.name, self.group())
        return found

    def rights(self):
        """Flags for what the security contexts and limits say."""
        pod, own = self.spec["securityContext"], self.container["securityContext"]
        assert pod["runAsNonRoot"] and pod["seccompProfile"] == {"type": "RuntimeDefault"}
        # Podman's profile of system calls is its default, too.
        assert own == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
        flags = ["--user", f"{pod['runAsUser']}:{pod['runAsGroup']}", "--group-add", pod["fsGroup"], "--cap-drop", "ALL",
                 "--security-opt", "no-new-privileges", "--read-only", "--read-only-tmpfs=false"]  # yapf: disable
        limits = only_known(self.container["resources"]["limits"], {"cpu", "memory"})
        flags += ["--memory", int(limits["memory"][:-2]) * MEMORY_UNITS[limits["memory"][-2:]]]
        if "cpu" in limits:
            flags += ["--cpus", limits["cpu"]]
        return flags

    def start(self):
        self.cluster.give_address(self)
        flags = ["--name", self.name, "--hostname", self.name, "--network", self.cluster.podman.network, "--ip", self.address,
                 "--mac-address", self.link_address(), "--no-hosts", "--volume", f"{self.hosts_file()}:/etc/hosts:ro",
                 "--pull", "never", "--timeout", LIFE_SECONDS, *self.rights()]  # yapf: disable
        folders = self.folders()
        for mount in self.container["volumeMounts"]:
            only_known(mount, {"mountPath", "name", "readOnly"})
            flags += ["--volume", f"{folders[mount['name']]}:{mount['mountPath']}:{'ro' if mount.get('readOnly') else 'rw'}"]
        for name, value in self.variables().items():
            flags += ["--env", f"{name}={value}"]
        command = self.command()
        flags += ["--entrypoint", json.dumps(command[:1])]
        self.cluster.podman.run("run", "--detach", *flags, self.container["image"], *command[1:])

    def link_address(self):
        """The same for whoever has the address. Otherwise others would look for a service's new pod where the old one was,
        until their kernels ask again after up to 45 seconds; services of Kubernetes have no such delay."""
        return "02:00:" + ":".join(f"{each:02x}" for each in ipaddress.ip_address(self.address).packed)

    def hosts_file(self):
        return self.cluster.root / f"hosts-{self.name}"

    def probe(self, kind):
        """Whether the manifest's probe of that kind succeeds."""
        asked = self.container[kind]
        port, way = manifests.probed_port(self.stateful_set, kind)
        seconds = asked.get("timeoutSeconds", 1)
        if way == "tcpSocket":
            with socket.socket() as connection:
                connection.settimeout(seconds)
                return connection.connect_ex((self.address, port)) == 0
        # HealthCheckRequest, whose first field is the service.
        service = asked["grpc"].get("service", "").encode()
        request = b"\x0a" + bytes([len(service)]) + service if service else b""
        with grpc.insecure_channel(f"{self.address}:{port}") as channel:
            try:
                return channel.unary_unary("/grpc.health.v1.Health/Check")(request, timeout=seconds) == b"\x08\x01"
            except grpc.RpcError:
                return False

    def is_ready(self):
        return self.probe("startupProbe") and self.probe("readinessProbe")

    def execute(self, *command, environment=(), **options):
        """As `kubectl exec -i` does."""
        flags = [word for each in environment for word in ("--env", each)]
        return self.cluster.podman.attempt("exec", "--interactive", *flags, self.name, *command, **options)

    def log(self):
        done = self.cluster.podman.attempt("logs", "--tail", "30", self.name)
        return done.stdout + done.stderr

    def kill(self):
        """As `kubectl delete pod --force --grace-period=0` does; the pod's volumes stay."""
        self.cluster.podman.run("rm", "--force", "--time", "0", self.name)

    def lose(self):
        """As with its node: nobody is told that its connections end, and the pod's volumes stay."""
        self.cluster.podman.run("network", "disconnect", self.cluster.podman.network, self.name)
        self.kill()


class Cluster:
    """The pods of a folder of deploy/kubernetes with components; certificates and a token if components want them."""

    def __init__(self, podman, folder, components=()):
        self.podman = podman
        self.root = podman.folder / folder.replace("/", "-")
        self.root.mkdir()
        resources = manifests.kustomize(folder, components)
        self.services = manifests.of_kind(resources, "Service")
        # The network's first address is the gateway's.
        self._addresses = map(str, list(podman.subnet.hosts())[10:])
        sets = manifests.of_kind(resources, "StatefulSet").values()
        pods = [Pod(self, each, index) for each in sets for index in range(each["spec"]["replicas"])]
        self.pods = {each.name: each for each in pods}
        self.coordinator = self.pods["muster-coordinator-0"]
        self.secrets = self.root / "secrets"
        self.secrets.mkdir()
        self.tls = "tls" in components
        if self.tls:
            self._write_certificates()
        if "programs" in components:
            self._write_secret("muster-programs", {"token": os.urandom(32).hex() + "\n"})

    def _write_certificates(self):
        """With the names that the component asks for."""
        with tempfile.TemporaryDirectory() as top:
            made = pathlib.Path(top)
            make_certificates(made, ["DNS:muster-coordinator", "DNS:*.muster-servers.muster.svc"])
            self._write_secret("muster-tls", {name: (made / name).read_text() for name in CERTIFICATE_FILES.values()})

    def _write_secret(self, name, files):
        (self.secrets / name).mkdir()
        for file, text in files.items():
            (self.secrets / name / file).write_text(text)

    def claim(self, name, group):
        """The folder of a claim, which pods of the group may write to."""
        folder = self.root / name
        if not folder.exists():
            folder.mkdir()
            os.chown(folder, 0, group)
            folder.chmod(0o2770)
        return folder

    def secret(self, name, mode, group):
        for each in [self.secrets / name, *(self.secrets / name).iterdir()]:
            os.chown(each, 0, group)
            each.chmod(0o750 if each.is_dir() else mode)
        return self.secrets / name

    def give_address(self, pod):
        """A new one, except that a service's stays; all pods learn the names that lead to it."""
        if pod.address is None or not pod.services():
            pod.address = next(self._addresses)
        names = "".join(f"{each.address} {' '.join([each.own_name(), *each.services()])}\n"
                        for each in self.pods.values() if each.address is not None)  # yapf: disable
        for each in self.pods.values():
            if each.address is not None:
                # In place, since containers have the file itself.
                each.hosts_file().write_text(f"127.0.0.1 localhost\n{each.address} {each.name}\n{names}")

    def start(self, *pods):
        for pod in pods:
            pod.start()
        self.wait_until(lambda: all(pod.is_ready() for pod in pods))

    def start_all(self):
        self.start(*self.pods.values())

    def stop(self, *pods):
        """As `kubectl delete pod` does; {name of a pod: exit code of its container}."""
        names = [pod.name for pod in pods]
        self.podman.run("stop", "--time", GRACE_SECONDS, *names)
        said = self.podman.run("inspect", "--format", "{{.Name}} {{.State.ExitCode}}", *names)
        self.podman.run("rm", *names)
        return {name: int(code) for name, code in map(str.split, said.splitlines())}

    def stop_all(self):
        return self.stop(*self.pods.values())

    def wait_until(self, holds):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            assert time.monotonic() < deadline, "\n".join(f"{each.name}:\n{each.log()}" for each in self.pods.values())
            time.sleep(0.2)

    def muster(self, *arguments, environment=()):
        """As `kubectl exec muster-coordinator-0 -- muster …` does."""
        flags = [f"--tls-{flag}=/tls/{name}" for flag, name in CERTIFICATE_FILES.items()] if self.tls else []
        return self.coordinator.execute("muster", *flags, *arguments, environment=environment)

    def ask(self, *arguments):
        """The JSON that a command prints."""
        done = self.muster(*arguments, "--output", "json")
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return json.loads(done.stdout)

    def copy(self, name, data):
        """As `kubectl cp` does: tar in the coordinator's pod takes the file into /data."""
        with tempfile.TemporaryDirectory() as top:
            (pathlib.Path(top) / name).write_bytes(data)
            (pathlib.Path(top) / name).chmod(0o755)
            with subprocess.Popen(["tar", "cf", "-", "-C", top, name], stdout=subprocess.PIPE) as packed:
                done = self.coordinator.execute("tar", "xmf", "-", "-C", "/data", stdin=packed.stdout)
        assert done.returncode == 0, done.stderr

    def close(self):
        self.podman.attempt("rm", "--force", "--time", "0", *self.pods)
