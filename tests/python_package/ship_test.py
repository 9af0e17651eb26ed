"""The folder of a program that is sent with its job: what is packed, and that a job runs where the folder is not."""

import os
import shutil
import subprocess

import pytest
from conftest import MUSTER, PYTHON

import muster
from muster._ship import pack_folder

WAIT_SECONDS = 240


@pytest.fixture
def folder(tmp_path):
    """A folder with a program that needs a file beside it."""
    folder = tmp_path / "code"
    (folder / "data").mkdir(parents=True)
    (folder / "data/text").write_text("the data")
    (folder / "train.py").write_text("print('has', open('data/text').read(), flush=True)\n")
    (folder / "job.yaml").write_text(
        f"name: shipped\nmodel: {{program: {{command: [{PYTHON}, train.py], memory_bytes: 1GiB}}}}\nworkers: 2\n"
    )
    return folder


def test_the_bytes_are_those_of_the_archive(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/b").write_text("cd")
    packed = pack_folder(str(tmp_path))
    # As in common/program/folder_archive_test.cc.
    assert packed.archive == b"MUSTER FOLDER 1\nd\1\0\0\0af\3\0\0\0a/b\2\0\0\0\0\0\0\0cde"
    assert packed.files == 1 and packed.name.startswith("sha256-") and len(packed.name) == 71


def test_what_workers_do_not_need_is_left_out(folder):
    before = pack_folder(str(folder))
    for each in (".git", "__pycache__", "venv", "one", "runs"):
        (folder / each).mkdir()
        (folder / each / "x").write_text("x")
    (folder / "venv/pyvenv.cfg").touch()
    (folder / "venv/python").symlink_to("/usr/bin/python3")
    (folder / "one/cluster.json").touch()
    (folder / "a.log").touch()
    (folder / ".musterignore").write_text("# not needed\n*.log\n/runs/\n.musterignore\n")
    assert pack_folder(str(folder)) == before


@pytest.mark.parametrize(
    ("pattern", "path", "is_left_out"),
    [
        ("a?c", "abc", True),
        ("a?c", "ac", False),
        ("*.pt", "deep/model.pt", True),
        ("deep/*.pt", "deep/model.pt", True),
        ("/model.pt", "deep/model.pt", False),
        ("a.b", "axb", False),
    ],
)
def test_patterns_fit_names_or_whole_paths(tmp_path, pattern, path, is_left_out):
    (tmp_path / path).parent.mkdir(exist_ok=True)
    (tmp_path / path).touch()
    (tmp_path / ".musterignore").write_text(pattern + "\n")
    assert (os.fsencode(path) in pack_folder(str(tmp_path)).archive) != is_left_out


def test_what_cannot_be_sent_is_named(folder):
    (folder / "link").symlink_to("train.py")
    with pytest.raises(muster.InvalidArgument, match="code/link is a symbolic link.*or name it in .*/.musterignore"):
        pack_folder(str(folder))
    (folder / "link").unlink()
    (folder / ".musterignore").write_text("train.py\n!train.py\n")
    with pytest.raises(muster.InvalidArgument, match=r"\.musterignore:2: "):
        pack_folder(str(folder))
    (folder / ".musterignore").unlink()
    os.truncate(folder / "data/text", 300 << 20)
    with pytest.raises(muster.InvalidArgument, match=r"at most 10000 with 256 MiB .* The largest: data/text \(300.0 MiB\)"):
        pack_folder(str(folder))
    with pytest.raises(muster.NotFound, match="there is no folder"):
        pack_folder(str(folder / "none"))


def test_a_job_runs_where_its_folder_is_not(cluster_for_programs, folder):
    client = cluster_for_programs
    # The program `muster` gives the same bytes, so it sends nothing new.
    subprocess.run(
        [MUSTER, "submit", folder / "job.yaml", "--ship", "--coordinator", client.address],
        check=True, env={**os.environ, "MUSTER_PROGRAM_TOKEN_FILE": client._cluster.token_file},
    )  # fmt: skip
    draft = muster.JobDraft.from_file(folder / "job.yaml")
    job = client.submit(draft, ship=True)
    shutil.rmtree(folder)
    first, last = sorted(client.jobs(name="shipped"), key=lambda each: each.last_status.submitted_unix_ms)[-2:]
    assert last.id == job.id
    assert first.status().spec.model.program.shipped == job.status().spec.model.program.shipped != ""
    for each in (first, job):
        each.wait(WAIT_SECONDS)
        assert "".join(each.logs()).count("has the data") == 2
    # The draft stays as it was.
    assert draft.spec.model.program.shipped == ""


def test_only_programs_have_a_folder_to_send(cluster_for_programs):
    draft = muster.JobDraft.from_fields({"name": "mlp", "model": {"mlp": {"classes": 2}}})
    with pytest.raises(muster.InvalidArgument, match="this job runs none"):
        cluster_for_programs.submit(draft, ship=True)


def test_without_the_token_nothing_is_sent(cluster_for_programs, folder):
    with muster.connect(cluster_for_programs.address) as without_token, pytest.raises(muster.Error) as raised:
        without_token.submit(muster.JobDraft.from_file(folder / "job.yaml"), ship=True)
    assert raised.value.code == "PERMISSION_DENIED"
