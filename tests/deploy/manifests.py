"""What deploy/kubernetes/base says, read as Kubernetes would; and what `kubectl kustomize` makes of any of its folders."""

import copy
import functools
import pathlib
import shutil
import subprocess
import tempfile

import jsonpatch
import yaml

ROOT = pathlib.Path("deploy/kubernetes")
FOLDER = ROOT / "base"


def documents(path):
    """The resources of a file, in order."""
    return [each for each in yaml.safe_load_all(path.read_text()) if each is not None]


def kustomization():
    (only,) = documents(FOLDER / "kustomization.yaml")
    return only


def resources(kind=None):
    """Of all files that the kustomization names: all, or those of a kind."""
    found = [each for name in kustomization()["resources"] for each in documents(FOLDER / name)]
    return [each for each in found if kind in (None, each["kind"])]


def grace_seconds(stateful_set):
    """The time between SIGTERM and SIGKILL to a pod."""
    return pod_template(stateful_set)["spec"].get("terminationGracePeriodSeconds", 30)


def stateful_sets(tls=False):
    """The daemons', with the component for certificates if asked for."""
    found = resources("StatefulSet")
    if not tls:
        return found
    (component,) = documents(ROOT / "components/tls/kustomization.yaml")
    for patch in component["patches"]:
        assert patch["target"]["kind"] == "StatefulSet"
        (operations,) = documents(ROOT / "components/tls" / patch["path"])
        found = [jsonpatch.apply_patch(each, copy.deepcopy(operations))
                 if patch["target"].get("name", name_of(each)) == name_of(each) else each for each in found]
    return found


@functools.cache
def kustomize(folder, components=()):
    """All resources of a folder such as "overlays/local", with these components, such as "tls", added to it."""
    with tempfile.TemporaryDirectory() as top:
        # A copy, since kustomize follows no links.
        copied = pathlib.Path(top) / "kubernetes"
        shutil.copytree(ROOT, copied)
        own = copied / "own"
        own.mkdir()
        said = {"resources": ["../" + folder], "components": ["../components/" + each for each in components]}
        (own / "kustomization.yaml").write_text(yaml.safe_dump(said))
        made = subprocess.run(["kubectl", "kustomize", str(own)], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return [each for each in yaml.safe_load_all(made.stdout) if each is not None]


def of_kind(resources, kind):
    return {name_of(each): each for each in resources if each["kind"] == kind}


def name_of(resource):
    return resource["metadata"]["name"]


def pod_template(stateful_set):
    return stateful_set["spec"]["template"]


def container(stateful_set):
    """Its only one."""
    (only,) = pod_template(stateful_set)["spec"]["containers"]
    return only


def selects(selector, labels):
    return all(labels.get(key) == value for key, value in selector.items())


def values_of(stateful_set, flag):
    """All values of a flag that may be repeated."""
    pairs = [each.split("=", 1) for each in container(stateful_set)["args"]]
    return [value for name, value in pairs if name == flag]


def arguments(stateful_set):
    """{flag: value} of a container's arguments, all of which are --flag=value; of a repeated flag the last."""
    return dict(each.split("=", 1) for each in container(stateful_set)["args"])


def port_of(address):
    return int(address.rsplit(":", 1)[1])


def probed_port(stateful_set, probe="readinessProbe"):
    """The number of the port that a probe asks, and how: "grpc" or "tcpSocket"."""
    asked = container(stateful_set)[probe]
    if "grpc" in asked:
        return asked["grpc"]["port"], "grpc"
    named = {port["name"]: port["containerPort"] for port in container(stateful_set)["ports"]}
    return named[asked["tcpSocket"]["port"]], "tcpSocket"
