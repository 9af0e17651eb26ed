"""The package as it is installed: by a wheel and in place, without a network; what an import needs; and its types."""

import importlib.util
import pathlib
import re
import shutil
import subprocess
import zipfile

import pytest
from conftest import NATIVE, OFFLINE, PYTHON, ROOT, copy_of_sources, run

import muster

# Takes every name of the public surface, with its types.
TYPED = """
import muster


def train(path: str) -> float:
    draft = muster.Job.from_file(path).set("optimizer.learning_rate", 3e-4)
    with muster.connect() as client:
        job = client.submit(draft)
        text: str = "".join(job.logs(follow=True))
        status = job.wait(60.0)
        steps: list[int] = job.metrics("train/*")["train/loss"].steps
        names: list[str] = list(job.last_checkpoint().tensors("torch"))
        print(text, status.progress.step, steps, names)
        loss: float = job.evaluate("held_out.csv").loss
        examples: int = job.predict("new.csv", "predicted.csv")
        longer: muster.Job = job.last_checkpoint().restore(steps=100)
        print(loss, examples, longer.name, client.jobs()[0].id, job.evaluations()[0].step, job.generate("x", seed=1).upper())
    with muster.checkpoint(1) as folder:
        (folder / "x").touch()
    muster.report(1, loss=0.5)
    return muster.connect("a:1").job("x").metrics()["train/loss"].points[0].value


async def follow(client: muster.aio.Client) -> str:
    job = await client.job("x")
    async for history in job.follow_metrics():
        print(history.roll_backs)
    return await job.state()
"""


def test_the_version_is_that_of_the_programs(installed):
    release = re.search(r'kRelease\[\] = "(.*)"', (ROOT / "common/base/version.h").read_text()).group(1)
    assert muster.__version__ == release
    assert (installed / f"muster_train-{release}.dist-info").is_dir()


def test_everything_that_is_offered_exists_and_has_a_docstring():
    for name in muster.__all__:
        thing = getattr(muster, name)
        assert name == "__version__" or thing.__doc__, name
        if isinstance(thing, type):
            undocumented = [
                each for each, value in vars(thing).items() if not each.startswith("_") and callable(value) and not value.__doc__
            ]
            assert not undocumented, (name, undocumented)


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A fresh virtual environment, which has Debian's packages, too."""
    folder = tmp_path_factory.mktemp("environment")
    run(PYTHON, "-m", "venv", "--system-site-packages", "--without-pip", folder)
    return folder / "bin/python"


def muster_of(python):
    """Where an interpreter finds the package, outside of every folder with sources."""
    return pathlib.Path(run(python, "-c", "import muster; print(muster.__file__)", cwd="/").strip())


def test_a_wheel_installs_in_a_fresh_environment(environment, tmp_path):
    sources = copy_of_sources(tmp_path)
    run(environment, "-m", "pip", "wheel", *OFFLINE, "--wheel-dir", tmp_path, sources)
    (wheel,) = tmp_path.glob("*.whl")
    assert re.fullmatch(rf"muster_train-{muster.__version__}-py3-none-linux_\w+\.whl", wheel.name)
    names = zipfile.ZipFile(wheel).namelist()
    assert {"muster/libmuster_native.so", "muster/libmuster_servers.so"} <= set(names)
    assert {"muster/LICENSE", "muster/py.typed", "muster/_client.py", "muster/v1/job_pb2.py", "muster/v1/job_pb2.pyi"} <= set(names)
    assert not [each for each in names if not each.startswith(("muster/", "muster_train-"))]
    run(environment, "-m", "pip", "install", *OFFLINE, wheel)
    assert environment.parent.parent in muster_of(environment).parents
    run(environment, "-m", "pip", "uninstall", "--yes", "muster-train")


def test_without_the_built_libraries_a_wheel_is_for_any_machine(tmp_path):
    sources = copy_of_sources(tmp_path)
    for each in NATIVE:
        (tmp_path / each).unlink()
    run(PYTHON, "-m", "pip", "wheel", *OFFLINE, "--wheel-dir", tmp_path, sources)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name == f"muster_train-{muster.__version__}-py3-none-any.whl"
    assert not [each for each in zipfile.ZipFile(wheel).namelist() if each.endswith(".so")]


def test_it_installs_in_place(environment, tmp_path):
    sources = copy_of_sources(tmp_path)
    run(environment, "-m", "pip", "install", *OFFLINE, "--editable", sources)
    assert muster_of(environment) == sources / "src/muster/__init__.py"
    run(environment, "-c", "from muster._native import Endpoint, EndpointOptions; Endpoint(EndpointOptions()).address()", cwd="/")
    # What was changed is there at once.
    with open(sources / "src/muster/errors.py", "a") as file:
        file.write("CHANGED = 1\n")
    assert run(environment, "-c", "from muster.errors import CHANGED; print(CHANGED)", cwd="/") == "1\n"
    run(environment, "-m", "pip", "uninstall", "--yes", "muster-train")


def test_an_import_needs_neither_torch_nor_numpy_nor_yaml(installed):
    lacking = "import sys; sys.modules.update(dict.fromkeys(['torch', 'numpy', 'yaml']))"
    code = f"""{lacking}
import muster
job = muster.Job.from_fields({{'name': 'x'}})
muster.connect('127.0.0.1:1').close()
muster.report(1, loss=1)
"""
    run(PYTHON, "-c", code, env={"PYTHONPATH": str(installed)})
    said = subprocess.run(
        [PYTHON, "-c", f"{lacking}\nfrom muster._tensors import TensorReader\nTensorReader('numpy')"],
        env={"PYTHONPATH": str(installed)}, capture_output=True, text=True,
    )  # fmt: skip
    assert said.returncode and "ImportError" in said.stderr.replace("ModuleNotFoundError", "ImportError")


def said_by(code, **variables):
    """What a program in Python says when it fails."""
    environment = {"PATH": "/usr/bin:/bin", **{name: str(value) for name, value in variables.items()}}
    done = subprocess.run([PYTHON, "-c", code], env=environment, capture_output=True, text=True, cwd="/")
    assert done.returncode, done.stdout
    return done.stderr


def lacking(*modules):
    return f"import sys; sys.modules.update(dict.fromkeys({list(modules)}))\n"


def test_an_import_says_which_module_is_missing_and_how_to_get_it(installed):
    said = said_by(lacking("grpc") + "import muster", PYTHONPATH=installed)
    assert "muster needs the module grpc, which is not installed here: install Debian's python3-grpcio, or `pip install" in said
    said = said_by(lacking("google.protobuf") + "import muster", PYTHONPATH=installed)
    assert "install Debian's python3-protobuf, or `pip install protobuf`" in said
    said = said_by(lacking("yaml") + "import muster; muster.JobDraft.from_text('name: x')", PYTHONPATH=installed)
    assert "reading a job in YAML needs the module yaml" in said and "python3-yaml, or `pip install PyYAML`" in said
    said = said_by(lacking("pandas") + "import muster; muster.Evaluations().to_pandas()", PYTHONPATH=installed)
    assert "Evaluations.to_pandas needs the module pandas" in said and "python3-pandas, or `pip install pandas`" in said


def test_sources_that_were_not_built_say_so(tmp_path):
    sources = copy_of_sources(tmp_path)
    said = said_by("import muster", PYTHONPATH=sources / "src")
    assert "was not built: _client.py, _version.py, v1 is missing there; install it with `pip install ./python`" in said


def test_a_build_without_the_checkout_says_what_is_missing(tmp_path):
    sources = copy_of_sources(tmp_path / "checkout")
    shutil.copytree(sources, tmp_path / "alone/python")
    done = subprocess.run([PYTHON, "-m", "pip", "wheel", *OFFLINE, "--wheel-dir", tmp_path, tmp_path / "alone/python"],
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode
    assert f"{tmp_path}/alone is none: it has no LICENSE, common/base/version.h, proto/job.proto" in done.stderr
    assert "install the wheel that `./muster package` makes there" in done.stderr


def test_a_build_without_the_compiler_of_protos_names_its_package(tmp_path):
    sources = copy_of_sources(tmp_path)
    code = f"import sys; sys.path.insert(0, {str(sources)!r}); import generate; generate.protoc()"
    said = said_by(code, PATH=tmp_path)
    assert "install Debian's protobuf-compiler and protobuf-compiler-grpc" in said


def test_the_public_surface_is_typed(installed, tmp_path):
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not there: install Debian's mypy")
    cache = ["--cache-dir", tmp_path / "cache", "--config-file", ROOT / "python/pyproject.toml"]
    # Checks a copy, since files of an installation are not checked.
    shutil.copytree(installed / "muster", tmp_path / "package/muster")
    run(PYTHON, "-m", "mypy", *cache, "-p", "muster", cwd=tmp_path / "package")
    (tmp_path / "user.py").write_text(TYPED)
    run(PYTHON, "-m", "mypy", *cache, "user.py", cwd=tmp_path, env={"MYPYPATH": "package"})
    # Another file, because mypy knows a file again by its length and the second of its time.
    (tmp_path / "wrong.py").write_text(TYPED.replace("job.wait(60.0)", 'job.wait("60")'))
    said = subprocess.run(
        [PYTHON, "-m", "mypy", *map(str, cache), "wrong.py"],
        cwd=tmp_path, env={"MYPYPATH": "package"}, capture_output=True, text=True,
    )  # fmt: skip
    assert said.returncode and 'Argument 1 to "wait" of "Job" has incompatible type "str"' in said.stdout
