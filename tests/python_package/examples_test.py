"""The programs of examples/python, as jobs, made small."""

import difflib
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from conftest import PYTHON, ROOT

import muster

WAIT_SECONDS = 300
EXAMPLES = ROOT / "examples/python"


def run(client, name, installed, folder, arguments=()):
    """Runs the job of an example in a copy of its folder, with these arguments; returns what was printed, and the job."""
    if not (folder / "pi.c").exists():
        shutil.copytree(EXAMPLES, folder, dirs_exist_ok=True)
    draft = muster.Job.from_file(EXAMPLES / f"{name}.yaml")
    program = draft.spec.model.program
    # As it is, the job runs in the folder of its file.
    assert program.working_folder == str(EXAMPLES.absolute())
    program.working_folder = str(folder)
    program.environment["PYTHONPATH"] = str(installed)
    command = [PYTHON if each == "python3" else each for each in program.command]
    program.command[:] = [*command, *arguments]
    job = client.submit(draft)
    try:
        job.wait(WAIT_SECONDS)
    except muster.Error as error:
        raise AssertionError("".join(job.logs())) from error
    return "".join(job.logs()), job


def code_of(name):
    """The lines of a program, without what its docstring says."""
    text = (EXAMPLES / name).read_text()
    return text[text.index('"""', 3) :].splitlines()


def test_a_network_learns_digits_on_several_processes_by_three_more_lines(cluster_for_programs, installed, tmp_path):
    pytest.importorskip("torch")
    changes = [each for each in difflib.ndiff(code_of("digits.py"), code_of("digits_ddp.py")) if each[0] in "+-"]
    assert len(changes) == 3 and all(each[0] == "+" for each in changes), changes
    text, _ = run(cluster_for_programs, "digits_ddp", installed, tmp_path, ["--steps", "60"])
    right = [float(each) for each in re.findall(r"accuracy ([\d.]+) of 800", text)]
    # Both have the same weights.
    assert len(right) == 2 and right[0] == right[1] and right[0] > 0.9, text


def test_digits_are_read_from_files():
    pytest.importorskip("torch")
    data = pathlib.Path(os.environ.get("MUSTER_SHARED_DATA", ROOT / "../shared/data"))
    if not (data / "t10k-images-idx3-ubyte.gz").exists():
        pytest.skip("shared/data has no MNIST files")
    code = f"""
import digit_images
images, labels = digit_images.load({str(data)!r})
assert images.shape == (10000, 1, 28, 28) and images.max() == 1, images.shape
assert labels[:5].tolist() == [7, 2, 1, 0, 4], labels[:5]
"""
    subprocess.run([PYTHON, "-c", code], check=True, env={"PYTHONPATH": str(EXAMPLES)})


def test_a_script_for_torchrun_is_the_same_on_gloo_and_on_muster(cluster_for_programs, installed, tmp_path):
    pytest.importorskip("torch")
    small = ["--layers", "2", "--width", "64", "--heads", "2", "--context", "32", "--steps", "40", "--evaluate", "20"]
    losses = {}
    for backend in ("muster", "gloo"):
        # A file in the script's folder would be taken for its checkpoint.
        text, _ = run(cluster_for_programs, "gpt", installed, tmp_path / backend, [*small, "--backend", backend])
        losses[backend] = [float(each) for each in re.findall(r"held out ([\d.]+)", text)]
    assert len(losses["muster"]) == 2 and losses["muster"][1] < losses["muster"][0] < 5.6, losses
    assert losses["muster"] == pytest.approx(losses["gloo"], rel=1e-3)


def test_a_program_need_not_be_python(cluster_for_programs, installed, tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no compiler of C")
    subprocess.run([compiler, "-O2", "-Wall", "-Werror", "-o", tmp_path / "pi", EXAMPLES / "pi.c"], check=True)
    text, job = run(cluster_for_programs, "pi", installed, tmp_path)
    estimates = [float(each) for each in re.findall(r"pi is about ([\d.]+)", text)]
    assert len(estimates) == 2 and estimates == pytest.approx([3.1416] * 2, abs=0.01) and estimates[0] != estimates[1], text
    assert job.metrics("train/pi")["train/pi"].steps[-1] == 50
    assert [each.clock for each in job.checkpoints()] == [40, 50]
