"""What `kubectl kustomize` makes of base, overlays and components, and whether Kubernetes' published types take it."""

import copy
import functools
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import manifests
import pytest
import yaml

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


@functools.cache
def kubernetes_folder():
    """A copy of deploy/kubernetes, since kustomize follows no links, with a kustomization for each folder that adds certificates."""
    copied = pathlib.Path(tempfile.mkdtemp()) / "kubernetes"
    shutil.copytree(manifests.ROOT, copied)
    for folder in FOLDERS:
        with_tls = copied / ("tls_" + folder.replace("/", "_"))
        with_tls.mkdir()
        (with_tls / "kustomization.yaml").write_text(
            yaml.safe_dump({"resources": ["../" + folder], "components": ["../components/tls"]}))
    return copied


@functools.cache
def kustomize(folder):
    """All resources."""
    made = subprocess.run(["kubectl", "kustomize", str(kubernetes_folder() / folder)], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return [each for each in yaml.safe_load_all(made.stdout) if each is not None]


def of_kind(resources, kind):
    return {manifests.name_of(each): each for each in resources if each["kind"] == kind}


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
    for each in of_kind(kustomize("tls_" + folder.replace("/", "_")), "StatefulSet").values():
        assert "--tls-key" in manifests.arguments(each)
        assert "tcpSocket" in manifests.container(each)["livenessProbe"]


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
    resources = [each for folder in FOLDERS for each in kustomize(folder)]
    assert type_errors(resources, tmp_path) == ""
    # They do tell.
    worker = copy.deepcopy(of_kind(resources, "StatefulSet")["muster-worker"])
    manifests.pod_template(worker)["spec"]["automountServiceAccountTokens"] = False
    assert "automountServiceAccountTokens" in type_errors([worker], tmp_path)
