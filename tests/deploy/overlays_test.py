"""What `kubectl kustomize` makes of base, overlays and components, and whether Kubernetes' published types take it."""

import copy
import json
import os
import pathlib
import shutil
import subprocess

import manifests
import pytest
from manifests import kustomize, of_kind

FOLDERS = ["base", "overlays/local", "overlays/gpu"]
# What `./muster test` has npm put there.
MODULES_FOLDER = pathlib.Path(os.environ.get("MUSTER_NODE_MODULES") or "third_party/npm/node_modules")
# apiVersion: the module of kubernetes-types.
MODULES = {
    "v1": "core/v1",
    "apps/v1": "apps/v1",
    "networking.k8s.io/v1": "networking/v1",
    "policy/v1": "policy/v1",
}

needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl here")
needs_types = pytest.mark.skipif(
    not (MODULES_FOLDER / "kubernetes-types").is_dir(),
    reason="kubernetes-types are not there: npm ci --prefix third_party/npm, with MUSTER_NODE_MODULES its node_modules")


@needs_kubectl
@pytest.mark.parametrize("folder", FOLDERS)
def test_kustomize_takes_it(folder):
    sets = of_kind(kustomize(folder), "StatefulSet")
    assert set(sets) == {"muster-coordinator", "muster-server", "muster-worker"}
    for each in sets.values():
        assert each["metadata"]["namespace"] == "muster"
        # What is not requested cannot be promised (see manifests_test.py).
        resources = manifests.container(each)["resources"]
        assert resources["limits"]["memory"] == resources["requests"]["memory"]


@needs_kubectl
def test_local_fits_one_node_without_shared_storage():
    resources = kustomize("overlays/local")
    for claim in of_kind(resources, "PersistentVolumeClaim").values():
        assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    cpus, gibibytes = 0, 0
    for each in of_kind(resources, "StatefulSet").values():
        assert each["spec"]["replicas"] == 1
        requests = manifests.container(each)["resources"]["requests"]
        cpus += int(requests["cpu"].removesuffix("m")) / 1000
        memory = requests["memory"]
        gibibytes += int(memory[:-2]) / (1024 if memory.endswith("Mi") else 1)
    assert cpus <= 0.5
    assert gibibytes <= 4


@needs_kubectl
def test_gpu_gives_each_worker_one():
    worker = of_kind(kustomize("overlays/gpu"), "StatefulSet")["muster-worker"]
    container = manifests.container(worker)
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert "--devices=1" in container["args"]
    assert "--slots=1" in container["args"]


@needs_kubectl
@pytest.mark.parametrize("folder", FOLDERS)
def test_certificates_can_be_added(folder):
    for each in of_kind(kustomize(folder, ("tls",)), "StatefulSet").values():
        assert "--tls-key" in manifests.arguments(each)
        assert "tcpSocket" in manifests.container(each)["livenessProbe"]


@needs_kubectl
@pytest.mark.parametrize("folder", FOLDERS)
def test_workers_can_take_programs_from_those_who_know_a_token(folder):
    sets = of_kind(kustomize(folder, ("tls", "programs")), "StatefulSet")
    takers = {name for name, each in sets.items() if "--allow-programs" in manifests.container(each)["args"]}
    assert takers == {"muster-worker"}
    for name in ("muster-coordinator", "muster-worker"):
        container = manifests.container(sets[name])
        assert "--program-token-file=/programs/token" in container["args"]
        (mount,) = [each for each in container["volumeMounts"] if each["mountPath"] == "/programs"]
        assert mount["readOnly"]
        (volume,) = [each for each in manifests.pod_template(sets[name])["spec"]["volumes"] if each["name"] == mount["name"]]
        # As daemons want it: a file of root's that the pod's group may read.
        assert volume["secret"] == {"secretName": "muster-programs", "defaultMode": 0o440}


def type_errors(resources, tmp_path):
    """What tsc says of these as constants of Kubernetes' types."""
    lines = [f'import * as m{i} from "kubernetes-types/{module}";' for i, module in enumerate(MODULES.values())]
    number = {version: i for i, version in enumerate(MODULES)}
    for i, each in enumerate(resources):
        lines.append(f'const r{i}: m{number[each["apiVersion"]]}.{each["kind"]} = {json.dumps(each)};')
    link = tmp_path / "node_modules"
    if not link.exists():
        link.symlink_to(MODULES_FOLDER.resolve())
    source = tmp_path / "manifests.ts"
    source.write_text("\n".join(lines) + "\n")
    checked = subprocess.run(["node", str(link / "typescript/bin/tsc"), "--noEmit", "--strict", "--skipLibCheck", str(source)], capture_output=True,
                             text=True)
    assert (checked.returncode == 0) == (checked.stdout == ""), checked.stderr
    return checked.stdout


@needs_kubectl
@needs_types
def test_kubernetes_types_take_every_resource(tmp_path):
    resources = [each for folder in FOLDERS for each in kustomize(folder) + kustomize(folder, ("tls", "programs"))]
    assert type_errors(resources, tmp_path) == ""
    # They do tell.
    worker = copy.deepcopy(of_kind(resources, "StatefulSet")["muster-worker"])
    manifests.pod_template(worker)["spec"]["automountServiceAccountTokens"] = False
    assert "automountServiceAccountTokens" in type_errors([worker], tmp_path)
