#!/usr/bin/python3
"""Packs Muster's built programs; ./muster builds them and runs this.

Usage: package.py package [--out DIR] [--built DIR]       makes muster-RELEASE-debian12-ARCHITECTURE.tar.gz, a .deb, and a
                                                           wheel of the Python package alone, with its libraries
       package.py install --prefix DIR [--built DIR]      puts the same files under a folder, such as /usr/local

What is packed, under the prefix (/usr in the .deb, a folder named muster-RELEASE in the tarball):

    bin/                the programs, without debugging symbols
    lib/                the Python package muster (python/), in lib/python3/dist-packages; `install` puts it where Debian's
                        Python finds packages of the prefix, if it looks anywhere there
    share/muster/       README.md, CHANGELOG.md, CONTRIBUTING.md, SECURITY.md, LICENSE, docs/, examples/, proto/ (for clients in any language), licences/ (of
                        the libraries that the programs are linked with), packages.txt (Debian's packages that have to
                        be installed for the programs to start)
"""

import argparse
import gzip
import importlib.util
import io
import os
import pathlib
import re
import shutil
import site
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).absolute().parent.parent
PROGRAMS = [
    "client/muster",
    "server/coordinator/muster-coordinator",
    "server/muster-server",
    "worker/generate/muster-generate",
    "worker/predict/muster-predict",
    "worker/runtime/muster-worker",
]
# Debian's own place of packages, under its prefix /usr.
PYTHON_PACKAGES = pathlib.Path("lib/python3/dist-packages")
# The packages that the package muster needs to be imported, and programs do not.
PYTHON_DEPENDENCIES = "python3-grpcio, python3-protobuf, python3-yaml"
TEXTS = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE", "docs", "examples", "proto"]
# A wheel is built from these.
WHEEL_SOURCES = ["LICENSE", "common/base/version.h", "proto", "python"]
BUILD_WHEEL = "import sys, setuptools.build_meta as builder; builder.build_wheel(sys.argv[1])"
# Libraries of which the compiler takes code into the programs, so that no file of them is needed to run.
HEADER_PACKAGES = ["libcli11-dev", "nlohmann-json3-dev", "libxxhash-dev", "libabsl-dev", "libcpp-httplib-dev"]
DESCRIPTION = """\
training of models by parameter servers and by all-reduce
 Muster trains models on one machine or many: jobs say which model, data and
 optimizer, and whether gradients go to parameter servers or are summed by
 all-reduce. This package has its coordinator, server, worker and client, for
 processors; GPUs need a build on a machine that has CUDA."""


def run(*command, **options):
    return subprocess.run([str(each) for each in command], check=True, capture_output=True, text=True, **options).stdout


def version_of(program):
    """Release and commit, as the program itself says."""
    said = run(program, "--version")
    found = re.fullmatch(r"muster (\S+) \(commit ([^;]*);.*\)\n", said)
    if found is None:
        sys.exit(f"muster: {program} --version says {said!r}, not a release and a commit")
    return found.groups()


def architecture():
    return run("dpkg", "--print-architecture").strip()


def dependencies(programs):
    """What the programs need to start, as a control file says it: packages with the least version of each."""
    with tempfile.TemporaryDirectory() as folder:
        control = pathlib.Path(folder) / "debian/control"
        control.parent.mkdir()
        control.write_text("Source: muster\n\nPackage: muster\nArchitecture: any\n")
        said = run("dpkg-shlibdeps", "-O", *(f"-e{each}" for each in programs), cwd=folder)
    return said.strip().removeprefix("shlibs:Depends=")


def names(depends):
    """The packages of a control file's list."""
    return [each.split()[0] for each in depends.split(", ")]


def copy_licence(package, folder):
    """The licence of a package that is installed here; some are links into another package's folder."""
    licence = pathlib.Path("/usr/share/doc") / package / "copyright"
    if not licence.exists():
        sys.exit(f"muster: {licence} is missing, and no package is made without the licences of what is linked;"
                 f" images of Debian often leave /usr/share/doc out: apt-get install --reinstall {package}, with"
                 " path-exclude taken out of /etc/dpkg/dpkg.cfg.d")  # yapf: disable
    shutil.copyfile(licence, folder / package)


def stage_programs(built, folder):
    """Makes a folder of the programs, without debugging symbols; returns their paths."""
    folder.mkdir(parents=True)
    for each in PROGRAMS:
        target = folder / pathlib.Path(each).name
        run("strip", "--strip-unneeded", "-o", target, (built / each).resolve())
        target.chmod(0o755)
    return sorted(folder.iterdir())


def stage_licences(packages, folder):
    """Makes a folder of the licences of these packages, and of what is part of the sources."""
    folder.mkdir()
    for package in sorted(packages):
        copy_licence(package, folder)
    # The coordinator and the client hold uPlot.
    shutil.copyfile(ROOT / "third_party/uplot/LICENSE", folder / "uplot")


def stage(built, folder):
    """Lays out under `folder` what is packed; returns what the programs depend on."""
    programs = stage_programs(built, folder / "bin")
    libraries = stage_python(built, folder / PYTHON_PACKAGES)
    depends = dependencies([*programs, *libraries])
    share = folder / "share/muster"
    share.mkdir(parents=True)
    for name in TEXTS:
        for source in sorted([ROOT / name] if (ROOT / name).is_file() else (ROOT / name).rglob("*")):
            if source.is_file() and source.name != "BUILD":
                target = share / source.relative_to(ROOT)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
                target.chmod(0o644)
    stage_licences({*names(depends), *HEADER_PACKAGES}, share / "licences")
    (share / "packages.txt").write_text("\n".join(names(depends)) + "\n")
    return depends


def stage_python(built, folder):
    """Makes the Python package in a folder; returns the libraries in it."""
    sys.path.insert(0, str(ROOT / "python"))
    import generate

    generate.build(folder / "muster", [built / each for each in generate.NATIVE])
    libraries = [folder / "muster" / pathlib.Path(each).name for each in generate.NATIVE]
    for each in libraries:
        each.chmod(0o644)
        run("strip", "--strip-unneeded", each)
    for each in folder.rglob("*"):
        each.chmod(0o755 if each.is_dir() else 0o644)
    return libraries


def python_folder(prefix):
    """Where a prefix has Python packages, and whether Debian's Python looks there by itself."""
    looked_at = map(pathlib.Path, [*site.getsitepackages(), site.getusersitepackages()])
    found = [each for each in looked_at if each.is_relative_to(prefix.absolute() / "lib")]
    return (found[0], True) if found else (prefix / PYTHON_PACKAGES, False)


def write_tarball(folder, name, path, time):
    """The same bytes for the same files, whoever packs them."""

    def plain(entry):
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        entry.mtime = time
        entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
        return entry

    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.GNU_FORMAT) as tar:
        tar.add(folder, name, filter=plain)
    with open(path, "wb") as file, gzip.GzipFile("", "wb", 6, file, time) as packed:
        packed.write(data.getvalue())


def write_deb(folder, release, depends, path, time):
    with tempfile.TemporaryDirectory() as top:
        root = pathlib.Path(top)
        root.chmod(0o755)
        shutil.copytree(folder, root / "usr")
        doc = root / "usr/share/doc/muster"
        doc.mkdir(parents=True)
        (doc / "copyright").write_text("Muster is under the Apache License, Version 2.0, which is in\n"
                                       "/usr/share/common-licenses/Apache-2.0. Licences of the libraries that the\n"
                                       "programs are linked with are in /usr/share/muster/licences.\n")  # yapf: disable
        (root / "DEBIAN").mkdir()
        size = sum(each.stat().st_size for each in (root / "usr").rglob("*") if each.is_file())
        (root / "DEBIAN/control").write_text(f"""\
Package: muster
Version: {release}
Architecture: {architecture()}
Maintainer: Muster's developers <muster@localhost>
Installed-Size: {(size + 1023) // 1024}
Depends: {depends}
Recommends: {PYTHON_DEPENDENCIES}
Section: science
Priority: optional
Description: {DESCRIPTION}
""")
        for each in root.rglob("*"):
            each.chmod(0o755 if each.is_dir() or each.parent.name == "bin" else 0o644)
        # Higher levels of xz take many times as long, and save a tenth.
        run("dpkg-deb", "--root-owner-group", "-Zxz", "-z1", "--build", root, path, env={**os.environ, "SOURCE_DATE_EPOCH": str(time)})


def require_wheel_builder():
    missing = [f"python3-{each}" for each in ("setuptools", "wheel") if importlib.util.find_spec(each) is None]
    if missing:
        sys.exit("muster: cannot package: the wheel of the Python package is built by Debian's "
                 f"{' and '.join(missing)}; apt-get install {' '.join(missing)}")  # yapf: disable


def write_wheel(staged, out, time):
    """Builds a wheel of the Python package, without a network, with the libraries that were staged; returns its path."""
    with tempfile.TemporaryDirectory() as top:
        sources, made = pathlib.Path(top) / "sources", pathlib.Path(top) / "made"
        sys.path.insert(0, str(ROOT / "python"))
        import generate

        # A build writes beside its sources, so it gets a copy of them; what an earlier one left there is not theirs.
        left = shutil.ignore_patterns("build", "*.egg-info", "__pycache__", "v1", "_plain", "_version.py", "*.so")
        for name in WHEEL_SOURCES:
            (sources / name).parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, sources / name, ignore=left)
            else:
                shutil.copyfile(ROOT / name, sources / name)
        for each in map(pathlib.Path, generate.NATIVE):
            (sources / "bazel-bin" / each).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(staged / PYTHON_PACKAGES / "muster" / each.name, sources / "bazel-bin" / each)
        run(sys.executable, "-c", BUILD_WHEEL, made, cwd=sources / "python",
            env={**os.environ, "SOURCE_DATE_EPOCH": str(time)})  # yapf: disable
        (wheel,) = made.iterdir()
        return pathlib.Path(shutil.copy(wheel, out))


def time_of_tree():
    """When the commit was made, so that packing it again gives the same bytes."""
    try:
        return int(run("git", "-C", ROOT, "log", "-1", "--format=%ct"))
    except (subprocess.CalledProcessError, FileNotFoundError):
        return int((ROOT / "CHANGELOG.md").stat().st_mtime)


def package(built, out):
    require_wheel_builder()
    release, commit = version_of(built / "client/muster")
    out.mkdir(parents=True, exist_ok=True)
    time = time_of_tree()
    base = f"muster-{release}-debian12-{architecture()}"
    with tempfile.TemporaryDirectory() as top:
        folder = pathlib.Path(top) / "staged"
        depends = stage(built, folder)
        write_tarball(folder, f"muster-{release}", out / f"{base}.tar.gz", time)
        write_deb(folder, release, depends, out / f"{base}.deb", time)
        wheel = write_wheel(folder, out, time)
    print(f"muster {release}, commit {commit}")
    for path in (out / f"{base}.tar.gz", out / f"{base}.deb", wheel):
        print(f"  {path}  {path.stat().st_size / 1e6:.1f} MB")
    print(f"To install it on Debian 12: apt install {(out / base).absolute()}.deb")
    print(f"The Python package alone, as a client: pip install {wheel.absolute()}")


def install(built, prefix):
    release, commit = version_of(built / "client/muster")
    with tempfile.TemporaryDirectory() as top:
        folder = pathlib.Path(top) / "staged"
        depends = stage(built, folder)
        python, found = python_folder(prefix)
        for source in sorted(folder.rglob("*")):
            if source.is_dir():
                continue
            target = prefix / source.relative_to(folder)
            if source.is_relative_to(folder / PYTHON_PACKAGES):
                target = python / source.relative_to(folder / PYTHON_PACKAGES)
            target.parent.mkdir(parents=True, exist_ok=True)
            # A program that runs keeps the file that it was started from.
            new = target.with_name(f".{target.name}.new")
            shutil.copy(source, new)
            new.replace(target)
    print(f"muster {release}, commit {commit}, is in {prefix}/bin; it needs these packages of Debian:")
    print("  " + " ".join(names(depends)))
    print(f"The Python package muster is in {python}; it needs " + PYTHON_DEPENDENCIES.replace(",", ""))
    if not found:
        print(f"  Python looks there with PYTHONPATH={python.absolute()}")


def main():
    parser = argparse.ArgumentParser(prog="./muster", description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("package", help="make a tarball, a Debian package, and a wheel of the Python package")
    packing.add_argument("--out", type=pathlib.Path, default=ROOT / "dist", help="folder (default: %(default)s)")
    installing = commands.add_parser("install", help="put the same files under a folder")
    installing.add_argument("--prefix", type=pathlib.Path, required=True, help="such as /usr/local or ~/.local")
    for each in (packing, installing):
        each.add_argument("--check", action="store_true", help="only say whether the command line is right")
        each.add_argument("--built", type=pathlib.Path, default=ROOT / "bazel-bin", help="Bazel's folder of programs")
    arguments = parser.parse_args()
    if arguments.check:
        return
    try:
        if arguments.command == "package":
            package(arguments.built, arguments.out)
        else:
            install(arguments.built, arguments.prefix)
    except OSError as error:
        sys.exit(f"muster: cannot {arguments.command}: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"muster: cannot {arguments.command}: {error}\n{error.stderr}")


if __name__ == "__main__":
    main()
