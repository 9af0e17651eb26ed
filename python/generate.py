"""Makes what the package has beside its sources: messages of the protos, the client for plain code, and the version.

setup.py runs this in a build, and tools/package.py for an installation without pip.
"""

from __future__ import annotations

import io
import pathlib
import re
import shutil
import subprocess
import tempfile
import tokenize

HERE = pathlib.Path(__file__).absolute().parent
ROOT = HERE.parent
SOURCES = HERE / "src/muster"
# The protos that the client needs, with all that they import.
PROTOS = ["adjustment", "job", "job_service", "metrics", "status", "trace"]
# The libraries that Bazel builds: collectives, and parameters on servers. The package has none where they were not built.
NATIVE = ["worker/c_abi/libmuster_native.so", "worker/c_abi/libmuster_servers.so"]
# What the asyncio client's words are in the other.
WORDS = {
    "aio": "_plain",
    "AsyncIterator": "Iterator",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
}
LINES = {
    "from asyncio import sleep": "from time import sleep",
    "from grpc import aio as channels": "import grpc as channels",
    "from muster._muster_program import run_async as run_program": "from muster._muster_program import run as run_program",
}


def require_checkout() -> None:
    """Ends the build if python/ is not in a checkout."""
    missing = [each for each in ("LICENSE", "common/base/version.h", "proto/job.proto") if not (ROOT / each).exists()]
    if missing:
        raise SystemExit(
            f"muster-train is built from a checkout of Muster, and {ROOT} is none: it has no {', '.join(missing)}. Run `pip "
            "install ./python` in a clone, or install the wheel that `./muster package` makes there."
        )


def protoc() -> list[str]:
    """Returns the compiler of protos, and the flag that names its plugin for gRPC; ends the build if one is missing."""
    compiler = shutil.which("protoc")
    plugin = shutil.which("grpc_python_plugin")
    packages = {"protobuf-compiler": compiler, "protobuf-compiler-grpc": plugin}
    missing = [name for name, program in packages.items() if program is None]
    if compiler is None or missing:
        raise SystemExit(f"muster-train is built by protoc with its plugin for gRPC: install Debian's {' and '.join(missing)}")
    return [compiler, f"--plugin=protoc-gen-grpc={plugin}"]


def release() -> str:
    """Returns the release of the checkout."""
    require_checkout()
    found = re.search(r'kRelease\[\] = "(.*)"', (ROOT / "common/base/version.h").read_text())
    assert found is not None, "common/base/version.h names no release"
    return found[1]


def plain_module(source: str) -> str:
    """Returns a module of the client for plain code, made of the asyncio client's."""
    for line, other in LINES.items():
        source = source.replace(f"\n{line}\n", f"\n{other}\n")
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    lines = source.splitlines(keepends=True)
    # From the end, so that the places of the tokens before stay right.
    for token, after in reversed(list(zip(tokens, tokens[1:]))):
        row, begin = token.start[0] - 1, token.start[1]
        if token.type != tokenize.NAME:
            continue
        if token.string in ("async", "await"):
            lines[row] = lines[row][:begin] + lines[row][after.start[1] :]
        elif token.string in WORDS:
            lines[row] = lines[row][:begin] + WORDS[token.string] + lines[row][token.end[1] :]
    return "".join(lines)


def make_plain_client(target: pathlib.Path) -> None:
    """Writes the client for plain code into the folder of the package `muster`."""
    modules = {each.name: each.read_text() for each in sorted((SOURCES / "aio").glob("*.py"))}
    for line in LINES:
        if not any(f"\n{line}\n" in source for source in modules.values()):
            raise SystemExit(f"generate.py: no module of aio has the line {line!r}")
    # The docstring there, and the comment after it, are about asyncio.
    modules["__init__.py"] = '"""The client."""\n' + modules["__init__.py"][modules["__init__.py"].index("\nfrom muster") :]
    folder = target / "_plain"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, source in modules.items():
        (folder / name).write_text(f"# Made by generate.py from aio/{name}.\n{plain_module(source)}")


def generate(target: pathlib.Path) -> None:
    """Writes the made files into the folder of the package `muster`."""
    make_plain_client(target)
    (target / "_version.py").write_text(f'__version__ = "{release()}"\n')
    # Under a name of their own, so that they can be imported beside other protos of the name proto/job.proto.
    with tempfile.TemporaryDirectory() as folder:
        protos = pathlib.Path(folder, "muster/v1")
        protos.mkdir(parents=True)
        for name in PROTOS:
            text = (ROOT / f"proto/{name}.proto").read_text()
            (protos / f"{name}.proto").write_text(text.replace('import "proto/', 'import "muster/v1/'))
        made = pathlib.Path(folder, "made")
        made.mkdir()
        outputs = [f"--{kind}_out={made}" for kind in ("python", "pyi", "grpc")]
        files = [f"muster/v1/{name}.proto" for name in PROTOS]
        subprocess.run([*protoc(), f"-I{folder}", *outputs, *files], check=True)
        (target / "v1").mkdir(exist_ok=True)
        for each in (made / "muster/v1").iterdir():
            if not (each.name.endswith("_pb2_grpc.py") and each.name != "job_service_pb2_grpc.py"):
                shutil.copyfile(each, target / "v1" / each.name)
        (target / "v1/__init__.py").write_text('"""The messages of proto/, as Python has them."""\n')


def native_libraries() -> list[pathlib.Path]:
    """Returns the libraries of this checkout that were built."""
    built = [ROOT / "bazel-bin" / each for each in NATIVE]
    return [each for each in built if each.exists()]


def build(target: pathlib.Path, native: list[pathlib.Path]) -> None:
    """Writes the whole package `muster` into the folder `target`, with these libraries."""
    made = shutil.ignore_patterns("__pycache__", *(pathlib.Path(each).name for each in NATIVE))
    shutil.copytree(SOURCES, target, dirs_exist_ok=True, ignore=made)
    generate(target)
    shutil.copyfile(ROOT / "LICENSE", target / "LICENSE")
    copy_native(native, target)


def copy_native(native: list[pathlib.Path], target: pathlib.Path) -> None:
    """Puts the libraries into the package's folder. A process keeps the files that it has loaded."""
    for each in native:
        new = target / f".{each.name}.new"
        shutil.copyfile(each, new)
        new.replace(target / each.name)
