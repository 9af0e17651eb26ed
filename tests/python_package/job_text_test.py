"""Job files and changes to them."""

import pathlib
import re
import subprocess

import pytest
from conftest import MUSTER, ROOT, run

import muster

EXAMPLES = sorted((ROOT / "examples").glob("*.textproto"))

# Texts that name no job, and what is said of them.
WRONG = [
    ("job.yaml", "", " is empty"),
    ("job.yaml", "nam: x\n", ': .* has no field named "nam"'),
    ("job.yaml", "name: x\nname: y\n", ':2:1: "name" is given twice'),
    ("job.yaml", "workers: two\n", ": .*workers field"),
    ("job.yaml", "workers: -1\n", ": .*workers field: Value out of range"),
    ("job.yaml", "workers: 1.5\n", ": .*workers field: Couldn't parse integer"),
    ("job.yaml", "seed: 18446744073709551616\n", ": .*seed field: Value out of range"),
    ("job.yaml", "model: 3\n", ": .*model field"),
    ("job.yaml", "model: {mlp: {hiden: [1]}}\n", ': .* has no field named "hiden" at "JobSpec.model.mlp"'),
    ("job.yaml", "model: {mlp: {classes: 10}, ngram: {orders: 2}}\n", ': .* multiple "model" oneof fields'),
    ("job.yaml", "model: {mlp: {hidden: [1, ~]}}\n", r": .*null is not allowed .* JobSpec.model.mlp.hidden\[1\]"),
    ("job.yaml", "- a\n- b\n", ": the job is a list; expected fields with values"),
    ("job.yaml", "just text\n", ": the job is a str; expected fields with values"),
    ("job.yaml", "# nothing\n", ": the job is a NoneType; expected fields with values"),
    ("job.yaml", "name: !foo x\n", ":1:7: could not determine a constructor"),
    ("job.yaml", "? [a]\n: b\n", ":1:3: found unhashable key"),
    ("job.yaml", "~: 1\n", ": .*None field"),
    ("job.yaml", "name: no\n", ": .*name field"),
    ("job.yaml", "name: 2026-02-31\n", ": day is out of range"),
    ("job.yaml", "update: {dense: all_reducee}\n", ": Failed.* all_reducee for enum .* JobSpec.update.dense"),
    ("job.yaml", "update: {deterministic: maybe}\n", ": .* Expected true or false"),
    ("job.yaml", "labels: x\n", ": .*labels must be in a dict which is x"),
    ("job.yaml", "labels: {a: [1]}\n", ": .*labels field"),
    ("job.yaml", "name: x\n---\nname: y\n", ":2:1: but found another document"),
    ("job.yaml", "name: 'x\n", ":2:1: found unexpected end of stream"),
    ("job.yaml", "a: b: c\n", ":1:5: mapping values are not allowed"),
    ("job.yaml", "a: *x\n", ":1:4: found undefined alias"),
    ("job.yaml", "model: &a {mlp: *a}\n", ': .* has no field named "mlp"'),
    ("job.yaml", 5000 * "[", ": lists and groups are nested far deeper"),
    ("job.json", 5000 * "[", ": lists and groups are nested far deeper"),
    ("job.json", '{"name": 5}', ": .*name field"),
    ("job.json", '{"name": "x",\n "name": "y"}', ': "name" is given twice'),
    ("job.json", '{"name" 1}', ":1:9: Expecting ':'"),
    ("job.json", '{"name": "a\nb"}', ":1:12: Invalid control character"),
    ("job.json", "{} {}", ":1:4: Extra data"),
    ("job.textproto", 'nam: "x"', ':1:1: .* has no field named "nam"'),
    ("job.textproto", "name: x", ":1:7: .*Expected string"),
    ("job.textproto", 'name: "x"\nname: "y"', ':2:7: .* multiple "name" fields'),
    ("job.textproto", 'name: "x', ':1:7: '),
    ("job.textproto", "model { mlp { } ngram { } }", ":1:17: .*another member of oneof"),
    ("job.textproto", "model { mlp", ':1:'),
    ("job.textproto", "update { block_bytes: 64KiB }", ":1:23: "),
    ("job.textproto", "# a comment\nbatch_size: -3", ":2:13: "),
    ("job", "model { mlp { classes: x } }", ":1:24: "),
    ("job", '{"workers": "z"}', ": .*workers field"),
    ("job", "data: {csv: {path: a b}}\nworkers: z", ": .*workers field"),
]
# Changes that cannot be made to a job of an MLP with one hidden layer, and what is said of them.
WRONG_CHANGES = [
    ("optimizer.learning_rate", "x", ".*learning_rate field"),
    ("optimizer.lerning_rate", 1, 'optimizer has no field "lerning_rate"; it has name, learning_rate, '),
    ("optimizer.learning_rate.x", 1, "optimizer.learning_rate is no group of fields"),
    ("model.mlp.hidden[9]", 1, "hidden has 1 elements, counted from 0"),
    ("model.mlp.hidden[0]", "z", ".*hidden field"),
    ("model.mlp.hidden[0]", None, ".*null is not allowed"),
    ("model.mlp.hidden[x]", 1, r'model.mlp has no field "hidden\[x\]"; it has hidden, classes'),
    ("model.mlp.hidden.x", 1, "model.mlp.hidden is no group of fields"),
    ("model.mlp.hidden", "z", ".*must be in \\[\\] which is z"),
    ("model.ngram.orders", 2, "mlp is set, and only one of mlp and ngram may be; clear mlp first"),
    ("model", 3, ".*model field"),
    ("workers[0]", 1, "workers is not a list; leave the index out"),
    ("labels[0]", "x", "labels is not a list; leave the index out"),
    ("labels", 3, ".*must be in a dict"),
    ("[0]", 1, r'a job has no field "\[0\]"'),
    ("", 1, 'a job has no field ""'),
    ("update.dense", "foo", ".*Invalid enum value foo"),
    ("seed", -1, ".*Value out of range"),
    ("stop.steps", {1}, ".*steps field"),
]


def said_by_muster(*words):
    """What the program says is wrong with a job."""
    done = subprocess.run([MUSTER, "validate", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 2, done
    return done.stderr.strip().removeprefix("muster: ")


@pytest.mark.parametrize("name, text, said", WRONG)
def test_wrong_files_are_refused_by_name_and_place(name, text, said, tmp_path):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(muster.InvalidArgument, match=f"^{path}{said}"):
        muster.Job.from_file(path)


@pytest.mark.parametrize("path, value, said", WRONG_CHANGES)
def test_wrong_changes_are_refused_and_change_nothing(path, value, said):
    draft = muster.Job.from_file(ROOT / "examples/digits.textproto")
    before = draft.spec.SerializeToString(deterministic=True)
    with pytest.raises(muster.InvalidArgument, match=f"^{re.escape(path)}: {said}"):
        draft.set(path, value)
    assert draft.spec.SerializeToString(deterministic=True) == before


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
    # Nothing expands the aliases.
    path.write_bytes(b"a: &a [x, x, x, x, x, x, x, x, x]\n" + b"".join(
        b"%c: &%c [*%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c]\n" % (i + 1, i + 1, *9 * (i,)) for i in b"abcdefgh"
    ))  # fmt: skip
    with pytest.raises(muster.InvalidArgument, match="has no field named"):
        muster.Job.from_file(path)
    path.write_bytes(b"\xef\xbb\xbfname: marked\n")
    assert muster.Job.from_file(path).spec.name == "marked"


YAML = """
name: "no"
labels: {team: vision, run: "7"}
model: {mlp: {hidden: [64, 32], classes: 10}}
data: {csv: {path: data/a.csv, label: y, no_header: no, separator: ";"}, holdout: 2e-1}
update: {dense: ALL_REDUCE, bucketBytes: 65536}
optimizer: {name: adam, learning_rate: 3e-4, beta1: 0}
workers: 10
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
update { dense: ALL_REDUCE bucket_bytes: 65536 }
optimizer { name: "adam" learning_rate: 3e-4 beta1: 0 }
workers: 10 seed: 18446744073709551615
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


# A field, values that people write for it, and what they stand for.
WRITTEN = [
    ("update.block_bytes", ["65536", "64KiB", "64 kb", "64k", "64Ki", "65536b", 64 << 10], 64 << 10),
    ("update.block_bytes", ["4 GiB", "4g", "4096M", " 4 GB "], 4 << 30),
    ("sparse_tables.cache_bytes", ["1e6", 1e6, "1000000.0"], 10**6),
    ("sparse_tables.cache_bytes", ["KiB", 1024], 1024),
    ("update.dense", ["ALL_REDUCE", "all_reduce", "all-reduce", "All-Reduce", 2], 2),
    ("workers", ["4", "4.0", "4e0", 4.0], 4),
    ("model.mlp.hidden", [["1e2", "64"], (100, 64.0)], [100, 64]),
    ("labels", [{"size": "4 GiB"}], {"size": "4 GiB"}),
]


@pytest.mark.parametrize("path, written, expected", WRITTEN)
def test_values_are_read_as_people_write_them(path, written, expected):
    *groups, field = path.split(".")
    for value in written:
        nested = {field: value}
        for each in reversed(groups):
            nested = {each: nested}
        for draft in (muster.Job.from_fields(nested), muster.JobDraft().set(path, value)):
            read = draft.spec
            for each in groups:
                read = getattr(read, each)
            read = getattr(read, field)
            kind = type(expected)
            assert (kind(read) if kind in (list, dict) else read) == expected, value


@pytest.mark.parametrize("value", ["1.5GiB", "GiBs", "64 KiBB", "-1k", "64 K B", "", "99999999999E", "k64"])
def test_a_text_that_is_no_size_is_refused_as_the_program_does(value, tmp_path):
    said = re.escape(f'block_bytes is "{value}"; expected a number of bytes, such as 65536, 64KiB or 1GiB')
    with pytest.raises(muster.InvalidArgument, match=rf"^the job: JobSpec\.update\.{said}$"):
        muster.Job.from_fields({"update": {"block_bytes": value}})
    job = muster.Job.from_file(ROOT / "examples/digits.textproto")
    with pytest.raises(muster.InvalidArgument, match=rf"^update.block_bytes: UpdateSpec\.{said}$"):
        job.set("update.block_bytes", value)
    text = tmp_path / "job.yaml"
    text.write_text(f'update: {{block_bytes: "{value}"}}\n')
    assert "expected a number of bytes, such as 65536, 64KiB or 1GiB" in said_by_muster(text)


def test_sizes_and_choices_of_a_file_are_those_that_the_program_reads(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text("update: {dense: all-reduce, bucket_bytes: 4 MiB}\nworkers: 1e1\n")
    spec = muster.Job.from_file(path).spec
    assert (spec.update.dense, spec.update.bucket_bytes, spec.workers) == (2, 4 << 20, 10)


def test_what_the_program_prints_is_read_as_it_was(tmp_path):
    example = ROOT / "examples/clicks_hybrid.textproto"
    path = tmp_path / "job.yaml"
    path.write_text(run(MUSTER, "plan", "--effective", example))
    read = muster.Job.from_file(path).spec
    given = muster.Job.from_file(example).spec
    assert read.update.dense == given.update.dense and read.model == given.model and read.data == given.data


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_read_as_protobuf_reads_it(example):
    from google.protobuf import text_format
    from muster.v1 import job_pb2

    expected = text_format.Parse(example.read_text(), job_pb2.JobSpec())
    # Only paths differ in the two.
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
    job.set("model.mlp.hidden", (8,)).set("update.deterministic", True).set("update.block_bytes", 1 << 20)
    assert list(job.spec.model.mlp.hidden) == [8] and job.spec.update.deterministic
    assert job.spec.update.block_bytes == 1 << 20
    job.set("labels.team.name", "vision").set("optimizer.momentum", 0).set("optimizer.momentum", None)
    assert dict(job.spec.labels) == {"team.name": "vision"} and not job.spec.optimizer.HasField("momentum")
    job.set("labels", {"run": "7"}).set("model", {"ngram": {"orders": 2}}).set("data", None)
    assert dict(job.spec.labels) == {"run": "7"} and job.spec.model.ngram.orders == 2 and not job.spec.HasField("data")
    job.set("data.text.path", pathlib.Path("a/../b"))
    assert job.spec.data.text.path == str(pathlib.Path("b").absolute())
    job.set("model", {"program": {"command": ["./a"], "working_folder": "b"}})
    assert job.spec.model.program.working_folder == str(pathlib.Path("b").absolute())
    job.set("labels.team", "x").set("labels.run", None)
    assert dict(job.spec.labels) == {"team": "x"}
    numpy = pytest.importorskip("numpy")
    job.set("workers", numpy.int64(3)).set("optimizer.learning_rate", numpy.float32(0.5))
    job.set("update.deterministic", numpy.bool_(False))
    assert job.spec.workers == 3 and job.spec.optimizer.learning_rate == 0.5
    job.set("model", None).set("model.mlp.hidden", numpy.array([8, 4]))
    assert list(job.spec.model.mlp.hidden) == [8, 4] and not job.spec.update.deterministic
    with pytest.raises(muster.InvalidArgument, match="workers field"):
        job.set("workers", numpy.float32(1.5))


def test_documents_are_kept_apart_unless_the_job_says_otherwise():
    from muster._draft import submitted_form

    packings = {None: "WITHIN_DOCUMENTS", "ACROSS_DOCUMENTS": "ACROSS_DOCUMENTS"}
    for written, submitted in packings.items():
        sequences = {"path": "/text"} if written is None else {"path": "/text", "packing": written}
        for part in ("data", "validation"):
            spec = submitted_form(muster.Job.from_fields({"name": "x", part: {"sequences": sequences}}), "me")
            assert spec == muster.Job.from_fields(
                {"name": "x", "owner": "me", part: {"sequences": {"path": "/text", "packing": submitted}}}
            ).spec


def test_a_job_in_the_shape_of_a_config_is_refused_with_what_to_do():
    job = muster.Job.from_fields({"name": "x", "model": {"transformer": {"from": "config.json"}}})
    from muster._draft import submitted_form

    with pytest.raises(muster.InvalidArgument, match="`muster plan --effective` prints the job"):
        submitted_form(job, "me")
