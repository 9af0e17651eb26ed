#!/usr/bin/python3
"""Makes the container image from Muster's built programs; ./muster builds them and runs this.

Usage: image.py [--out FILE.tar] [--built DIR]

The image has one layer, the same for the same programs and packages:

    /opt/muster/        bin/ (the programs, without debugging symbols), examples/, LICENSE, licences/ (of the libraries
                        of which the compiler took code into the programs)
    /lib, /usr/lib      the libraries that the programs are linked with, from Debian's packages
    /bin                BusyBox: --alert-command is a line of /bin/sh, `kubectl cp` runs tar, and people look around
    /var/lib/dpkg       which packages these are; /usr/share/doc has the licence of each

Packages come from where apt of this machine has Debian's packages. No program of the root is run to make it, so nothing
depends on what a package would do when it is installed. The file is in the form of `docker save`, which Docker, Podman and
containerd all load under the image's name.
"""

import argparse
import getpass
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

import package

NAME = "localhost/muster"
# Its user and group, and those of the pods.
USER = 7000
# Only these paths of the unpacked packages are kept: programs, manuals, examples and settings of libraries are not.
KEPT = ("bin/busybox", "lib/", "lib64/", "usr/lib/", "usr/share/doc/")
# Of BusyBox's commands those that people look around with, and scripts are made of.
APPLETS = ["[", "cat", "chmod", "cp", "cut", "date", "dd", "df", "du", "echo", "env", "false", "find", "grep", "gunzip", "gzip",
           "head", "hostname", "id", "kill", "ls", "mkdir", "mv", "printf", "ps", "pwd", "rm", "rmdir", "sed", "sh",
           "sleep", "sort", "tail", "tar", "test", "timeout", "top", "touch", "tr", "true", "wc", "xargs"]  # yapf: disable
PATH = "/opt/muster/bin:/usr/local/bin:/usr/bin:/bin"


def apt_sources():
    """Lines of sources.list: where apt of this machine has Debian's packages, and no others."""
    said = package.run("apt-get", "indextargets", "--format", "deb $(REPO_URI) $(RELEASE) $(COMPONENT)",
                       "Created-By: Packages", "Origin: Debian")  # yapf: disable
    if not said.strip():
        sys.exit("muster: cannot make the image: apt has no list of Debian's packages; apt-get update fetches it")
    return sorted(set(said.splitlines()))


def packages_of(programs):
    """Debian's packages that have the libraries which the programs are linked with. package.dependencies would say the least
    version of each, too, and takes half a minute."""
    linked = set(re.findall(r"\(NEEDED\).*\[(.*)\]", package.run("readelf", "-d", *programs)))
    loaded = re.findall(r"^\s(?:\S+ => )?(/\S+) \(", package.run("ldd", *programs), re.MULTILINE)
    paths = {path for path in loaded if pathlib.Path(path).name in linked}
    # Packages name what they own by its path before or after /lib was merged into /usr/lib; the others are not found.
    names = [name for path in paths for name in (path.removeprefix("/usr"), "/usr" + path)]
    owned = subprocess.run(["dpkg", "-S", *names], capture_output=True, text=True).stdout
    owners = {pathlib.Path(path).name: owner for owner, path in re.findall(r"^([^:]+):\S* (\S+)$", owned, re.MULTILINE)}
    if missing := linked - set(owners):
        sys.exit(f"muster: cannot make the image: no package of Debian has {', '.join(sorted(missing))}, with which the programs"
                 " are linked")  # yapf: disable
    return sorted(set(owners.values()))


def fetch(packages, folder):
    """The files of these packages, and of what they need, as apt's lists of Debian's archive have them: what apt would fetch if
    nothing was installed."""
    (folder / "archives/partial").mkdir(parents=True)
    (folder / "status").touch()
    (folder / "sources.list").write_text("\n".join(apt_sources()) + "\n")
    own = [f"Dir::Cache={folder}", "Dir::Cache::Archives=archives", f"Dir::State::Status={folder}/status",
           f"Dir::Etc::SourceList={folder}/sources.list", "Dir::Etc::SourceParts=-", "APT::Install-Recommends=false",
           # Nothing is shared with other runs of apt, and its user for downloads cannot write here.
           "Debug::NoLocking=true", f"APT::Sandbox::User={getpass.getuser()}"]  # yapf: disable
    package.run("apt-get", *(f"--option={each}" for each in own), "--yes", "--download-only", "install", *packages)
    return sorted((folder / "archives").glob("*.deb"))


def status_of(debs):
    """What dpkg would have in /var/lib/dpkg/status if they were installed."""
    fields = [package.run("dpkg-deb", "--field", each).partition("\n") for each in debs]
    return "".join(f"{name}\nStatus: install ok installed\n{rest}\n" for name, _, rest in fields)


def is_kept(name):
    """Whether a path of the packages, without a slash at its front, belongs in the image."""
    if name.startswith("usr/share/doc/"):
        # A link is to the folder of another package with the same licence.
        return name.endswith("/copyright") or name.count("/") == 3
    return name.startswith(KEPT) and "/gconv/" not in name


class Layer:
    """A tar of the root file system: all of root's, with one time, in the order that it is added."""

    def __init__(self, path, time):
        self._tar = tarfile.open(path, "w", format=tarfile.GNU_FORMAT)
        self._time = time
        self._folders = set()

    def _add(self, entry, data=None):
        folder = str(pathlib.PurePath(entry.name).parent)
        if folder not in self._folders | {"."}:
            self.folder(folder)
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        entry.mtime = self._time
        self._tar.addfile(entry, data)

    def folder(self, name, mode=0o755):
        self._folders.add(name)
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode = tarfile.DIRTYPE, mode
        self._add(entry)

    def link(self, name, target):
        entry = tarfile.TarInfo(name)
        entry.type, entry.linkname = tarfile.SYMTYPE, target
        self._add(entry)

    def text(self, name, text):
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = len(text.encode()), 0o644
        self._add(entry, io.BytesIO(text.encode()))

    def file(self, name, source):
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = source.stat().st_size, 0o755 if os.access(source, os.X_OK) else 0o644
        with open(source, "rb") as data:
            self._add(entry, data)

    def unpack(self, deb):
        """What is kept of a package."""
        unpacked = subprocess.run(["dpkg-deb", "--fsys-tarfile", deb], check=True, capture_output=True).stdout
        with tarfile.open(fileobj=io.BytesIO(unpacked)) as source:
            for entry in sorted(source, key=lambda each: each.name):
                entry.name = entry.name.removeprefix("./")
                if entry.islnk():
                    entry.linkname = entry.linkname.removeprefix("./")
                if not entry.isdir() and is_kept(entry.name):
                    self._add(entry, source.extractfile(entry) if entry.isfile() else None)

    def close(self):
        self._tar.close()


def write_layer(path, built, time):
    """Writes the layer as a tar."""
    with tempfile.TemporaryDirectory() as top:
        folder = pathlib.Path(top)
        programs = package.stage_programs(built, folder / "bin")
        package.stage_licences(package.HEADER_PACKAGES, folder / "licences")
        debs = fetch([*packages_of(programs), "busybox"], folder / "apt")
        layer = Layer(path, time)
        for deb in debs:
            layer.unpack(deb)
        layer.text("var/lib/dpkg/status", status_of(debs))
        for applet in APPLETS:
            layer.link(f"bin/{applet}", "busybox")
        for each in [*sorted(programs), *sorted((folder / "licences").iterdir())]:
            layer.file(f"opt/muster/{each.relative_to(folder)}", each)
        layer.file("opt/muster/LICENSE", package.ROOT / "LICENSE")
        for each in sorted((package.ROOT / "examples").glob("*.textproto")):
            layer.file(f"opt/muster/examples/{each.name}", each)
        layer.text("etc/os-release", pathlib.Path("/etc/os-release").read_text())
        layer.text("etc/passwd", f"root:x:0:0::/:/bin/sh\nmuster:x:{USER}:{USER}::/tmp:/bin/sh\n")
        layer.text("etc/group", f"root:x:0:\nmuster:x:{USER}:\n")
        layer.folder("tmp", 0o1777)
        layer.close()


def commit(layer, name, labels, out, time):
    """Makes the image of a layer and writes it to a file, in a store that is gone afterwards."""
    with tempfile.TemporaryDirectory() as store:
        buildah = ["buildah", "--root", f"{store}/root", "--runroot", f"{store}/run"]
        container = package.run(*buildah, "from", "scratch").strip()
        try:
            package.run(*buildah, "add", "--quiet", container, layer, "/")
            said = [f"--label={key}={value}" for key, value in labels.items()]
            package.run(*buildah, "config", f"--user={USER}:{USER}", f"--env=PATH={PATH}", "--workingdir=/",
                        '--cmd=["muster", "help"]', *said, container)  # yapf: disable
            package.run(*buildah, "commit", "--quiet", f"--timestamp={time}", container, f"docker-archive:{out}:{name}")
        finally:
            package.run(*buildah, "rm", "--all")


def image(built, out):
    version, revision = package.version_of(built / "client/muster")
    out = out or package.ROOT / f"dist/muster-{version}-image-{package.architecture()}.tar"
    out.parent.mkdir(parents=True, exist_ok=True)
    name, time = f"{NAME}:{version}", package.time_of_tree()
    # As the Open Containers Initiative names them.
    labels = {
        "org.opencontainers.image.title": "Muster",
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.revision": revision,
        "org.opencontainers.image.licenses": "Apache-2.0",
    }
    with tempfile.TemporaryDirectory() as top:
        layer, made = pathlib.Path(top) / "layer.tar", pathlib.Path(top) / "image.tar"
        write_layer(layer, built, time)
        commit(layer, name, labels, made, time)
        # Replaced in one step.
        new = out.with_name(f".{out.name}.new")
        shutil.move(made, new)
        new.replace(out)
    print(f"muster {version}, commit {revision}, is the image {name}")
    print(f"  {out}  {out.stat().st_size / 1e6:.1f} MB")
    print(f"To run it here: podman load -i {out}")


def main():
    parser = argparse.ArgumentParser(prog="./muster image", description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, help="the file (default: in dist/)")
    parser.add_argument("--check", action="store_true", help="only say whether the command line is right")
    parser.add_argument("--built", type=pathlib.Path, default=package.ROOT / "bazel-bin", help="Bazel's folder of programs")
    arguments = parser.parse_args()
    if arguments.check:
        return
    try:
        image(arguments.built, arguments.out)
    except OSError as error:
        sys.exit(f"muster: cannot make the image: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"muster: cannot make the image: {error}\n{error.stderr}")


if __name__ == "__main__":
    main()
