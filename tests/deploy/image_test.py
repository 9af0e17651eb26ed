"""The image fits the pods that run it. containers_test.py makes it and runs them."""

import pathlib
import re
import sys
import tarfile

import manifests

sys.path.insert(0, str(pathlib.Path("tools").absolute()))
import image  # noqa: E402
import package  # noqa: E402


def test_it_has_the_programs_that_pods_run():
    commands = {manifests.container(each)["command"][0] for each in manifests.stateful_sets()}
    # The client, for those who look in, and what it generates and predicts with.
    programs = {pathlib.Path(each).name for each in package.PROGRAMS}
    assert commands | {"muster", "muster-generate", "muster-predict"} == programs


def test_its_name_is_what_pods_ask_for():
    release = re.search(r'kRelease\[\] = "(.*)"', pathlib.Path("common/base/version.h").read_text()).group(1)
    assert {manifests.container(each)["image"] for each in manifests.stateful_sets()} == {f"{image.NAME}:{release}"}


def test_its_user_is_that_of_the_pods():
    for stateful_set in manifests.stateful_sets():
        context = manifests.pod_template(stateful_set)["spec"]["securityContext"]
        assert context["runAsUser"] == context["runAsGroup"] == image.USER


def test_of_packages_it_has_libraries_and_licences():
    assert image.is_kept("usr/lib/x86_64-linux-gnu/libssl.so.3")
    assert image.is_kept("usr/share/doc/libssl3/copyright")
    assert not image.is_kept("usr/share/doc/libssl3/changelog.Debian.gz")
    assert not image.is_kept("usr/share/man/man1/busybox.1.gz")
    assert not image.is_kept("etc/apt/sources.list")


def test_a_layer_is_the_same_whoever_makes_it(tmp_path):
    (tmp_path / "program").write_text("#!/bin/sh\n")
    (tmp_path / "program").chmod(0o700)
    layer = image.Layer(tmp_path / "layer.tar", time=1000)
    layer.file("opt/muster/bin/program", tmp_path / "program")
    layer.link("bin/sh", "busybox")
    layer.text("etc/group", "root:x:0:\n")
    layer.folder("tmp", 0o1777)
    layer.close()
    with tarfile.open(tmp_path / "layer.tar") as tar:
        entries = {each.name: each for each in tar}
    assert list(entries) == ["opt", "opt/muster", "opt/muster/bin", "opt/muster/bin/program", "bin", "bin/sh", "etc", "etc/group",
                             "tmp"]  # yapf: disable
    assert {(each.uid, each.gid, each.uname, each.mtime) for each in entries.values()} == {(0, 0, "root", 1000)}
    assert {name: each.mode for name, each in entries.items() if not each.issym()} == {
        "opt": 0o755, "opt/muster": 0o755, "opt/muster/bin": 0o755, "opt/muster/bin/program": 0o755, "bin": 0o755, "etc": 0o755,
        "etc/group": 0o644, "tmp": 0o1777}  # yapf: disable
