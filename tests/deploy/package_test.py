"""What ./muster package and ./muster install make of the built programs: contents, control fields, dependencies."""

import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import zipfile

import pytest

sys.path.insert(0, str(pathlib.Path("tools").absolute()))
import image  # noqa: E402

PACKAGES = "tools/package.py"
PYTHON_FILES = {
    f"muster/{each}"
    for each in ("__init__.py", "_plain/_client.py", "libmuster_native.so", "libmuster_servers.so", "py.typed", "v1/job_pb2.py")
}
PROGRAMS = {"muster", "muster-coordinator", "muster-generate", "muster-predict", "muster-server", "muster-worker"}
TEXTS = {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "SECURITY.md", "docs/operations.md", "examples/text.textproto", "proto/job.proto"}


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def prefix_files(folder):
    return {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()}


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """The .deb unpacked, its control fields, and the paths of the tarball and of the wheel."""
    out = tmp_path_factory.mktemp("packed")
    # Programs are what the build made, texts are those of the tree that holds the script.
    run("/usr/bin/python3", PACKAGES, "package", "--built", ".", "--out", out)
    (deb,), (tarball,), (wheel,) = out.glob("*.deb"), out.glob("*.tar.gz"), out.glob("*.whl")
    run("dpkg-deb", "-x", deb, out / "root")
    control = dict(line.split(": ", 1) for line in run("dpkg-deb", "-f", deb).splitlines() if not line.startswith(" "))
    return out / "root", control, tarball, wheel


def test_the_control_fields_say_what_it_is(packed):
    root, control, tarball, _ = packed
    release = re.search(r'kRelease\[\] = "(.*)"', pathlib.Path("common/base/version.h").read_text()).group(1)
    assert control["Package"] == "muster"
    assert control["Version"] == release
    assert control["Architecture"] == run("dpkg", "--print-architecture").strip()
    assert release in tarball.name
    assert int(control["Installed-Size"]) * 1024 >= sum(each.stat().st_size for each in root.rglob("usr/bin/*"))


def test_it_has_programs_texts_and_a_licence_of_all_that_is_linked(packed):
    root, control, *_ = packed
    assert {each.name for each in (root / "usr/bin").iterdir()} == PROGRAMS
    share = root / "usr/share/muster"
    assert TEXTS <= prefix_files(share)
    packages = root / "usr/lib/python3/dist-packages"
    assert PYTHON_FILES <= prefix_files(packages)
    assert not [each for each in prefix_files(packages) if not each.startswith("muster/") or each.endswith(".pyc")]
    assert "python3-grpcio" in control["Recommends"]
    linked = set(image.packages_of(list((root / "usr/bin").iterdir())))
    licences = {each.name for each in (share / "licences").iterdir() if each.stat().st_size > 0}
    # Libraries of which only headers are used are compiled into the programs.
    assert licences >= linked | {"libcli11-dev", "nlohmann-json3-dev", "uplot"}
    assert "Apache License, Version 2.0" in (root / "usr/share/doc/muster/copyright").read_text()


def test_every_library_that_a_program_needs_is_of_a_package_it_depends_on(packed):
    root, control, *_ = packed
    depends = {each.split()[0] for each in control["Depends"].split(", ")}
    assert set(image.packages_of(list((root / "usr/bin").iterdir()))) <= depends
    assert not [each for each in depends if each.endswith("-dev")]
    listed = (root / "usr/share/muster/packages.txt").read_text().split()
    assert set(listed) == depends


def test_the_tarball_has_the_same_files_under_one_folder_and_nobodys_names(packed):
    root, control, tarball, _ = packed
    with tarfile.open(tarball) as tar:
        entries = tar.getmembers()
    top = f"muster-{control['Version']}/"
    assert {each.name.removeprefix(top) for each in entries if each.isfile()} == {
        each.removeprefix("usr/") for each in prefix_files(root) if not each.startswith("usr/share/doc/")
    }
    assert {(each.uname, each.gname) for each in entries} == {("root", "root")}
    assert all(each.mode == 0o755 for each in entries if each.name.startswith(f"{top}bin/"))


def test_the_wheel_is_the_python_package_with_its_libraries(packed, tmp_path):
    root, control, _, wheel = packed
    assert re.fullmatch(rf"muster_train-{control['Version']}-py3-none-linux_\w+\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as zipped:
        names = {each for each in zipped.namelist() if not each.startswith("muster_train-")}
        zipped.extractall(tmp_path)
    staged = root / "usr/lib/python3/dist-packages"
    assert names == prefix_files(staged)
    assert all((tmp_path / each).read_bytes() == (staged / each).read_bytes() for each in names)
    load = "import muster._native, muster._servers; muster._native.library(), muster._servers.library()"
    subprocess.run(["/usr/bin/python3", "-c", load], check=True, env={"PYTHONPATH": str(tmp_path)}, cwd="/")


def test_without_what_builds_wheels_the_debian_packages_are_named(tmp_path):
    code = f"""
import importlib.util, runpy, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name in ("setuptools", "wheel") else find(name)
sys.argv = [{PACKAGES!r}, "package", "--built", ".", "--out", {str(tmp_path)!r}]
runpy.run_path({PACKAGES!r}, run_name="__main__")
"""
    said = subprocess.run(["/usr/bin/python3", "-c", code], capture_output=True, text=True)
    assert said.returncode == 1
    assert "Debian's python3-setuptools and python3-wheel; apt-get install python3-setuptools python3-wheel" in said.stderr
    assert not list(tmp_path.iterdir())


def test_installed_programs_run_and_are_replaced_while_they_do(tmp_path):
    prefix = tmp_path / "local"
    (prefix / "bin").mkdir(parents=True)
    shutil.copy("/bin/sleep", prefix / "bin/muster")
    running = subprocess.Popen([prefix / "bin/muster", "1000"])
    try:
        printed = run("/usr/bin/python3", PACKAGES, "install", "--built", ".", "--prefix", prefix)
    finally:
        running.kill()
        running.wait()
    where = prefix / "lib/python3/dist-packages"
    assert f"PYTHONPATH={where}\n" in printed
    found = "import muster; print(muster.__file__)"
    assert subprocess.check_output(
        ["/usr/bin/python3", "-c", found], env={"PYTHONPATH": str(where)}, text=True
    ) == f"{where}/muster/__init__.py\n"  # fmt: skip
    said = run(prefix / "bin/muster", "version")
    assert said == run("client/muster", "version")
    for program in PROGRAMS:
        assert run(prefix / "bin" / program, "--version").startswith(f"{program} ")
        assert stat.S_IMODE((prefix / "bin" / program).stat().st_mode) == 0o755
    assert TEXTS <= prefix_files(prefix / "share/muster")
    assert not [each for each in prefix_files(prefix) if each.endswith(".new")]


def test_a_folder_without_programs_is_an_error_that_names_what_is_missing(tmp_path):
    said = subprocess.run(["/usr/bin/python3", PACKAGES, "install", "--built", tmp_path, "--prefix", tmp_path / "local"],
                          capture_output=True, text=True)  # yapf: disable
    assert said.returncode == 1
    assert f"{tmp_path}/client/muster" in said.stderr
    assert "Traceback" not in said.stderr
    assert not (tmp_path / "local").exists()
