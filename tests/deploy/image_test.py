"""The image has the programs that pods run, and the libraries that these are linked with."""

import pathlib

import manifests
import shared_libraries

LINES = pathlib.Path("deploy/image/Dockerfile").read_text().replace("\\\n", " ").splitlines()
# In Debian's own image.
BASE = {"libc6", "libgcc-s1", "libstdc++6", "zlib1g"}


def copied_programs():
    (line,) = [each for each in LINES if " install -D " in each]
    return [pathlib.Path(each.removeprefix("bazel-bin/")) for each in line.split() if each.startswith("bazel-bin/")]


def installed_packages():
    (line,) = [each for each in LINES if "apt-get install" in each]
    return set(line.split("--no-install-recommends")[1].split("&&")[0].split())


def test_it_has_the_programs_that_pods_run():
    commands = {manifests.container(each)["command"][0] for each in manifests.stateful_sets()}
    # The client, for those who look in, and what it generates and predicts with.
    assert commands | {"muster", "muster-generate", "muster-predict"} == {path.name for path in copied_programs()}


def test_it_has_the_libraries_of_the_programs_and_no_others():
    packages = shared_libraries.packages_of(shared_libraries.needed_libraries(copied_programs()))
    assert installed_packages() | BASE == packages | BASE


def test_it_runs_as_the_user_that_pods_run_as():
    (line,) = [each for each in LINES if each.startswith("USER ")]
    for stateful_set in manifests.stateful_sets():
        context = manifests.pod_template(stateful_set)["spec"]["securityContext"]
        assert line == f"USER {context['runAsUser']}:{context['runAsGroup']}"
