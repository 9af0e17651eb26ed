"""Job files and changes to them: the package reads what the program `muster` reads, and says the same of what is wrong."""

import pathlib
import subprocess

import pytest
from conftest import MUSTER, ROOT

import muster

EXAMPLES = sorted((ROOT / "examples").glob("*.textproto"))

# Texts that name no job; both clients have to say the same, with line and column.
WRONG = {
    "job.yaml": [
        "", "  \n", "nam: x\n", "name: x\nname: y\n", "workers: two\n", "workers: -1\n", "workers: [1, 2]\n", "model: 3\n",
        "model:\n  mlp: {hiden: [1]}\n", "model:\n  mlp: {classes: 10}\n  ngram: {orders: 2}\n", "- a\n- b\n", "just text\n",
        "name: !foo x\n", "<<: {a: b}\n", "? [a]\n: b\n", "~: 1\n", "update: {dense: all_reducee}\n", "update: {dense: 7}\n",
        "update: {deterministic: maybe}\n", "update: {block_bytes: 64 furlongs}\n", "learning_rate: 1\n", "rotary_base: 3\n",
        "optimizer: {learning_rate: 1e39}\n", "name: x\n---\nname: y\n", "labels: x\n", "labels: {a: [1]}\n", "batchsize: 3\n",
        "model: {mlp: {hidden: [1, ~, 2]}}\n", "workers: {a: b}\n", "seed: 18446744073709551616\n", "stop: {stepz: 5}\n",
        "name: &a x\nowner: *a\nworkers: *a\n", "validation: {csv: {numeric: [{a: b}]}}\n", "workers: &a [*a]\n",
        "model: " + 70 * "[" + 70 * "]" + "\n", f"name: {100 * 'x'}\nworkers: {100 * 'y'}\n",
    ],
    "job.json": [
        '{"nam": 1}', '{"workers": "two"}', '{"name": 5}', '{"name": true}', '{"workers": 1.5}', "[1]",
        '{"name": "x",\n "name": "y"}', '{"model": {"mlp": {"hidden": [1, null]}}}', '{"batchSize": -3}', '"text"',
        '{"name": null, "workers": "a"}', '{"model": 1e5}', '{"name": "é",\n  "workers": "z"}',
    ],
    "job.textproto": [
        'nam: "x"', "name: x", 'name: "x" name: "y"', 'workers: "two"', "model { mlp { hidden: 1 hidden: x } }",
        "model { mlp { hidden: [1, 2 } }", "model { mlp", "workers 3", "optimizer { learning_rate: 1e39f }", "5: 3",
        "update { block_bytes: 64 parsecs }", 'labels { key: "a" value: 3 }', 'labels { k: "a" }', 'name: "a\\q"',
        "model { mlp { } ngram { } }", "model: 3", "model: < mlp: < classes: x > >", "name: 'a' 'b' workers: z", "seed: 1.5",
        "a b", "} ", "data { holdout: x }", "compute { type: f33 }", "compute { recompute: }", "workers: 3;;",
        "# a comment\nworkers: 0x10 seed: 010\nbatch_size: -3",
    ],
    "job": ["model { mlp { classes: x } }", '{"workers": "z"}', "name: x\nworkers: z", "data: {csv: {path: a b}}\nworkers: z"],
}  # fmt: skip
# Changes that cannot be made to a job of an MLP with one hidden layer.
WRONG_CHANGES = [
    "optimizer.learning_rate=x", "optimizer.lerning_rate=1", "optimizer.learning_rate=", "optimizer.learning_rate.x=1",
    "model.mlp.hidden[9]=1", "model.mlp.hidden[0]=z", "model.mlp.hidden.x=1", "model.mlp.hidden[x]=1", "model.mlp.hidden=z",
    "model.ngram.orders=2", "model=3", "workers[0]=1", "labels=3", "[0]=1", "update.dense=foo", "data.csv.numeric[0]=a",
    "data.idx=3", "update.block_bytes=64 KiBi", "seed=-1",
]  # fmt: skip


def said_by_muster(*words):
    """What the program says is wrong with a job."""
    done = subprocess.run([MUSTER, "validate", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 2, done
    return done.stderr.strip().removeprefix("muster: ")


@pytest.mark.parametrize("name", WRONG)
def test_the_same_is_said_of_wrong_files(name, tmp_path):
    path = tmp_path / name
    for text in WRONG[name]:
        path.write_text(text)
        with pytest.raises(muster.InvalidArgument) as raised:
            muster.Job.from_file(path)
        assert str(raised.value) == said_by_muster(path), text


def test_the_same_is_said_of_wrong_changes():
    example = ROOT / "examples/digits.textproto"
    for change in WRONG_CHANGES:
        path, _, value = change.partition("=")
        with pytest.raises(muster.InvalidArgument) as raised:
            muster.Job.from_file(example).set(path, value)
        expected = said_by_muster(example, "--set", change).replace(f"--set {change}: ", f"{path}: ", 1)
        assert str(raised.value) == expected


@pytest.mark.parametrize(
    "name, text",
    [
        ("job.yaml", "name: 'x\n"), ("job.yaml", "a: b: c\n"), ("job.yaml", "x: [a, b\n"), ("job.yaml", "a: *x\n"),
        ("job.json", '{"name" 1}'), ("job.json", '{"name": "a\nb"}'), ("job.json", '{"workers": 1,}'), ("job.json", "{} {}"),
        ("job.json", "nul"), ("job.textproto", 'name: "x'),
    ],
)  # fmt: skip
def test_bad_syntax_is_an_error_with_its_place(name, text, tmp_path):
    """Its words are those of the library that reads it."""
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(muster.InvalidArgument, match=rf"^{path}:\d+:\d+: \w"):
        muster.Job.from_file(path)


def test_files_that_are_no_texts_are_refused(tmp_path):
    path = tmp_path / "job.yaml"
    with pytest.raises(muster.NotFound, match=f"cannot read the job file {path}: No such file"):
        muster.Job.from_file(path)
    with pytest.raises(muster.InvalidArgument, match="is a folder; name a job file"):
        muster.Job.from_file(tmp_path)
    path.write_text("name: x\n", encoding="utf-16")
    with pytest.raises(muster.InvalidArgument) as raised:
        muster.Job.from_file(path)
    assert str(raised.value) == said_by_muster(path)
    path.write_bytes(b"name: \xff\n")
    with pytest.raises(muster.InvalidArgument, match="is not UTF-8: invalid start byte at byte 6"):
        muster.Job.from_file(path)
    path.write_bytes(b"#" * (5 << 20))
    with pytest.raises(muster.InvalidArgument, match="has more than 4 MiB"):
        muster.Job.from_file(path)
    path.write_bytes(b"a: &a [x, x, x, x, x, x, x, x, x]\n" + b"".join(
        b"%c: &%c [*%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c]\n" % (i + 1, i + 1, *9 * (i,)) for i in b"abcdefgh"
    ))  # fmt: skip
    with pytest.raises(muster.InvalidArgument, match="far larger than any job"):
        muster.Job.from_file(path)
    path.write_bytes(b"\xef\xbb\xbfname: marked\n")
    assert muster.Job.from_file(path).spec.name == "marked"


YAML = """
name: no
labels: {team: vision, run: "7"}
model: {mlp: {hidden: [64, 32], classes: 10}}
data: {csv: {path: data/a.csv, label: y, no_header: no, separator: ";"}, holdout: 2e-1}
update: {dense: all-reduce, bucketBytes: 64 KiB}
optimizer: {name: adam, learning_rate: 3e-4, beta1: 0}
workers: 1e1
seed: 18446744073709551615
validation:
  sequences: {path: ../more, tokenizer: bytes}
initial_weights: ./weights/
"""
JSON = """
{"name": "no", "labels": {"team": "vision", "run": "7"}, "model": {"mlp": {"hidden": [64, 32], "classes": 10}},
 "data": {"csv": {"path": "data/a.csv", "label": "y", "noHeader": false, "separator": ";"}, "holdout": 0.2},
 "update": {"dense": "ALL_REDUCE", "bucket_bytes": 65536, "durability": null},
 "optimizer": {"name": "adam", "learning_rate": 0.0003, "beta1": 0}, "workers": 10, "seed": 18446744073709551615,
 "validation": {"sequences": {"path": "../more", "tokenizer": "bytes"}}, "initial_weights": "./weights/"}
"""
TEXTPROTO = """
name: "n" "o"  # in two parts
labels { key: "team" value: "vision" } labels { key: "run", value: "7" };
model { mlp: < hidden: 64 hidden: 0x20 classes: 10 > }
data { csv { path: 'data/a\\x2ecsv' label: "y" separator: "\\073" } holdout: .2f }
update { dense: all_reduce bucket_bytes: 64KiB }
optimizer { name: "adam" learning_rate: 3e-4 beta1: 0 }
workers: 012 seed: 18446744073709551615
validation { sequences { path: "../more" tokenizer: "bytes" } }
initial_weights: "./weights/"
"""


def test_one_job_is_the_same_in_all_notations(tmp_path):
    specs = []
    for name, text in (("job.yaml", YAML), ("job.json", JSON), ("job.textproto", TEXTPROTO)):
        (tmp_path / name).write_text(text)
        specs.append(muster.Job.from_file(tmp_path / name).spec)
        # Without an ending the text says what it is.
        assert muster.JobDraft.from_text(text, folder=tmp_path).spec == specs[-1]
    assert specs[0] == specs[1] == specs[2]
    spec = specs[0]
    assert (spec.name, spec.workers, spec.seed) == ("no", 10, 2**64 - 1)
    assert list(spec.model.mlp.hidden) == [64, 32] and dict(spec.labels) == {"team": "vision", "run": "7"}
    assert spec.data.csv.path == f"{tmp_path}/data/a.csv" and spec.data.csv.separator == ";"
    assert spec.validation.sequences.path == f"{tmp_path.parent}/more"
    assert spec.validation.sequences.tokenizer == "bytes" and spec.initial_weights == f"{tmp_path}/weights/"
    assert spec.update.bucket_bytes == 65536 and spec.optimizer.HasField("beta1")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_read_as_protobuf_reads_it(example):
    from google.protobuf import text_format
    from muster.v1 import job_pb2

    expected = text_format.Parse(example.read_text(), job_pb2.JobSpec())
    # Of which only paths differ.
    read = muster.Job.from_file(example)
    for message in (expected, read.spec):
        reader = message.data.WhichOneof("reader")
        for name in ("path", "images", "labels", "tokenizer"):
            path = getattr(getattr(message.data, reader), name, "")
            if path:
                setattr(getattr(message.data, reader), name, pathlib.Path(path).name)
    assert read.spec == expected


def test_fields_are_changed_one_by_one():
    job = muster.Job.from_file(ROOT / "examples/digits.textproto")
    assert job.set("optimizer.learning_rate", 3e-4).set("workers", 7) is job
    assert job.spec.optimizer.learning_rate == pytest.approx(3e-4) and job.spec.workers == 7
    job.set("model.mlp.hidden[0]", 128).set("model.mlp.hidden[1]", "64")
    assert list(job.spec.model.mlp.hidden) == [128, 64]
    job.set("model.mlp.hidden", (8,)).set("update.deterministic", True).set("update.block_bytes", "1 MiB")
    assert list(job.spec.model.mlp.hidden) == [8] and job.spec.update.deterministic
    assert job.spec.update.block_bytes == 1 << 20
    job.set("labels.team.name", "vision").set("optimizer.momentum", 0).set("optimizer.momentum", None)
    assert dict(job.spec.labels) == {"team.name": "vision"} and not job.spec.optimizer.HasField("momentum")
    job.set("labels", {"run": "7"}).set("model", {"ngram": {"orders": 2}}).set("data", None)
    assert dict(job.spec.labels) == {"run": "7"} and job.spec.model.ngram.orders == 2 and not job.spec.HasField("data")
    job.set("data.text.path", pathlib.Path("a/../b"))
    assert job.spec.data.text.path == str(pathlib.Path("b").absolute())
    with pytest.raises(muster.InvalidArgument, match="stop.steps is a set; expected None, a bool, a number, "):
        job.set("stop.steps", {1})
    numpy = pytest.importorskip("numpy")
    job.set("workers", numpy.int64(3)).set("optimizer.learning_rate", numpy.float32(0.5))
    assert job.spec.workers == 3 and job.spec.optimizer.learning_rate == 0.5


def test_a_job_in_the_shape_of_a_config_is_refused_with_what_to_do():
    job = muster.Job.from_fields({"name": "x", "model": {"transformer": {"from": "config.json"}}})
    from muster._draft import submitted_form

    with pytest.raises(muster.InvalidArgument, match="`muster plan --effective` prints the job"):
        submitted_form(job, "me")
