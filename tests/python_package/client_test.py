"""The client against a real cluster: the plain one, and its twin for asyncio."""

import asyncio
import csv
import json
import math
import pickle
import re
import socket
import threading
import time

import pytest
from conftest import MUSTER, ROOT, run
from jobs import endless_job, small_job

import muster
from muster.v1 import job_service_pb2, status_pb2

WAIT_SECONDS = 120
FAILING_JOB = """
name: failing
workers: 2
model: {mlp: {hidden: [16], classes: 3}}
data: {csv: {path: a.csv, label: y, numeric: [a]}, holdout: 0.2}
optimizer: {name: sgd, learning_rate: 0.1}
update: {dense: PARAMETER_SERVER}
batch_size: 50
stop: {steps: 60}
"""


@pytest.fixture
def small(client):
    """A job that has succeeded."""
    job = client.submit(small_job())
    assert job.wait(WAIT_SECONDS).state == status_pb2.SUCCEEDED
    return job


@pytest.fixture
def endless(client, request):
    """A job that runs until the test ends."""
    job = client.submit(endless_job(request.node.name))
    yield job
    if client.jobs(name=request.node.name, states=["RUNNING"]):
        job.cancel("the test is over")


def test_a_job_is_submitted_watched_and_has_an_owner(client):
    job = client.submit(small_job(labels__team="vision"))
    states = [status.state for status in job.watch()]
    assert states[-1] == status_pb2.SUCCEEDED
    status = job.status()
    assert (status.job_id, status.progress.step, status.spec.labels["team"]) == (job.id, 60, "vision")
    assert status.spec.owner == run("id", "-un").strip()
    assert job.state() == "SUCCEEDED"
    assert any(event.text.startswith("submitted") for event in job.events())


def test_logs_come_whole_by_slot_and_from_the_end(small):
    text = "".join(small.logs())
    assert "slot 0 finished at step 60" in text
    assert "".join(small.logs(follow=True)) == text
    # A log's times are those at which the text came, all within the last hour.
    assert "".join(small.logs(since=3600)) == text
    by_slot = ["".join(small.logs(slot=slot)) for slot in (0, 1)]
    assert "slot 1 finished" in by_slot[1] and "slot 1 finished" not in by_slot[0]
    assert "".join(small.logs(tail=1)).count("\n") == 1


def test_the_history_has_every_step(small):
    history = small.metrics("train/*", "held_out/accuracy")
    assert set(history) == {"train/loss", "train/learning_rate", "held_out/accuracy"}
    assert history["train/loss"].steps == list(range(1, 61))
    assert history["train/loss"].values[-1] < history["train/loss"].values[0]
    assert history["held_out/accuracy"].steps == [20, 40, 60]
    assert small.metrics("train/loss", from_step=50)["train/loss"].steps[0] == 50
    joined = small.metrics("train/loss", max_points=4)["train/loss"].points
    assert len(joined) <= 4 and sum(point.count for point in joined) == 60
    assert all(point.min <= point.mean <= point.max for point in joined)


def test_metrics_are_followed_while_a_job_runs(endless):
    seen = 0
    for history in endless.follow_metrics("train/loss"):
        if "train/loss" in history and history["train/loss"].points[-1].step > seen + 10:
            if seen:
                break
            seen = history["train/loss"].points[-1].step
    assert not endless.metrics("train/loss").roll_backs


def test_tensors_are_those_that_the_program_exports(small, client, cluster, tmp_path):
    numpy = pytest.importorskip("numpy")
    checkpoints = {each.clock: each for each in small.checkpoints()}
    oldest, newest = checkpoints[40], checkpoints[60]
    best = max(small.status().evaluations, key=lambda each: each.value)
    assert small.best_checkpoint().clock == best.clock == small.status().best.clock
    assert set(checkpoints) == {40, 60, best.clock} and checkpoints[best.clock].best
    assert small.last_checkpoint().clock == 60 and newest.bytes > 0 and not newest.damage and newest.verify() == []
    file = tmp_path / "weights.safetensors"
    run(MUSTER, "export", f"{small.id}@40", "--out", file, "--data-dir", cluster)
    data = file.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__")
    tensors = oldest.tensors()
    assert set(tensors) == set(header) and len(tensors) == 4
    for name, array in tensors.items():
        begin, end = header[name]["data_offsets"]
        assert array.dtype == numpy.float32 and list(array.shape) == header[name]["shape"]
        assert array.tobytes() == data[8 + size + begin : 8 + size + end]
        array += 1
    assert any((newest.tensors()[name] + 1 != array).any() for name, array in tensors.items())
    oldest.save(tmp_path / "saved")
    assert (tmp_path / "saved").read_bytes() == data
    assert [each.name for each in tmp_path.iterdir() if "partial" in each.name] == []


def test_tensors_of_torch_have_the_same_values(small):
    torch = pytest.importorskip("torch")
    checkpoint = small.last_checkpoint()
    arrays, tensors = checkpoint.tensors(), checkpoint.tensors("torch")
    assert set(arrays) == set(tensors)
    for name, tensor in tensors.items():
        assert torch.equal(tensor, torch.from_numpy(arrays[name]))
    with pytest.raises(muster.InvalidArgument, match='library is "jax"; expected "numpy" or "torch"'):
        checkpoint.tensors("jax")


def test_rows_of_sparse_tables_come_with_their_keys(client):
    pytest.importorskip("numpy")
    job = client.submit(small_job(
        model=None,
        model__logistic_regression={},
        data={"synthetic_clicks": {"examples": 2000, "fields": 3, "cardinality": 50, "seed": 1}, "holdout": 0.2},
    ))  # fmt: skip
    job.wait(WAIT_SECONDS)
    tensors = job.last_checkpoint().tensors()
    tables = [name.removesuffix(".keys") for name in tensors if name.endswith(".keys")]
    assert tables
    for table in tables:
        assert tensors[f"{table}.keys"].dtype == "uint64"
        assert tensors[f"{table}.rows"].shape[0] == len(tensors[f"{table}.keys"]) > 0


def test_a_failed_job_says_why_with_slot_and_last_lines(client, tmp_path):
    missing = tmp_path / "none.csv"
    job = client.submit(small_job(data={"csv": {"path": missing, "label": "y", "numeric": ["a"]}, "holdout": 0.2}))
    with pytest.raises(muster.JobFailed, match=f"job {job.id} failed: slot [01] on worker .*{missing}") as raised:
        job.wait(WAIT_SECONDS)
    error = raised.value
    assert error.slot in (0, 1) and error.job_id == job.id and error.code == "JOB_FAILED"
    assert any(str(missing) in line for line in error.log_lines)
    assert f"last lines of slot {error.slot}:\n  {error.log_lines[0]}" in str(error)


def test_waiting_ends_in_time_and_by_a_cancel(endless):
    with pytest.raises(TimeoutError, match=f"job {endless.id} has not ended after 10 s: [A-Z]+, step"):
        endless.wait(10)
    with pytest.raises(TimeoutError, match=f"job {endless.id} has not ended after 0 s: (nothing was heard of it|[A-Z]+, step)"):
        endless.wait(0)
    endless.cancel("enough of it")
    with pytest.raises(muster.JobCancelled, match="enough of it"):
        endless.wait(WAIT_SECONDS)
    # Safe to repeat.
    endless.cancel()
    endless.delete()
    with pytest.raises(muster.NotFound, match=endless.id):
        endless.status()


def test_a_job_is_described_also_after_its_end(small, cluster):
    assert small.describe("the baseline").spec.description == "the baseline" == small.last_status.spec.description
    assert "the baseline" in run(MUSTER, "status", small.id, "--data-dir", cluster)
    with pytest.raises(muster.InvalidArgument, match="the limit is 4096"):
        small.describe("x" * 4097)

    async def main():
        async with muster.aio.connect() as other:
            return await (await other.job(small.id)).describe("")

    assert asyncio.run(main()).spec.description == "" == small.status().spec.description


def test_jobs_are_found_by_id_name_and_label(client, endless):
    by_name = client.job(endless.status().spec.name)
    assert by_name.id == endless.id == client.job(endless.id).id
    done = client.submit(small_job(name="found", labels__run="7"))
    done.wait(WAIT_SECONDS)
    again = client.submit(small_job(name="found", labels__run="8"))
    again.wait(WAIT_SECONDS)
    assert client.job("found").id == again.id
    assert [each.id for each in client.jobs(name="foun?")] == [again.id, done.id]
    assert [each.id for each in client.jobs(name="foun?", limit=1)] == [again.id]
    assert [each.id for each in client.jobs(labels={"run": "7"})] == [done.id]
    running = {each.id for each in client.jobs(states=iter(["PENDING", "PLACING", "RUNNING"]))}
    assert endless.id in running and done.id not in running
    with pytest.raises(muster.NotFound, match='no job has the id or the name "nobody"'):
        client.job("nobody")
    with pytest.raises(muster.InvalidArgument, match='no state is called "DONE"; there are PENDING, '):
        client.jobs(states=["DONE"])


def test_refusals_are_the_coordinators(client, small):
    with pytest.raises(muster.InvalidArgument, match="model is not set; name one of ") as raised:
        client.submit(muster.Job.from_fields({"name": "x"}))
    assert isinstance(raised.value, ValueError)
    with pytest.raises(muster.Error, match="has already ended") as raised:
        small.cancel()
    assert raised.value.code == "FAILED_PRECONDITION"
    with pytest.raises(muster.NotFound, match="initial_weights .* holds no complete checkpoint"):
        client.submit(small_job(initial_weights="/nowhere/at all"))


def test_the_cluster_shows_its_daemons(client):
    daemons = client.cluster().daemons
    assert sorted(daemon.kind for daemon in daemons) == [status_pb2.SERVER, status_pb2.WORKER, status_pb2.WORKER]


def test_clusters_are_named_by_address_folder_and_environment(client, cluster, monkeypatch, tmp_path):
    with muster.connect(folder=cluster) as other:
        assert other.address == client.address and other.cluster().daemons
    monkeypatch.setenv("MUSTER_COORDINATOR", client.address)
    monkeypatch.setenv("HOME", str(tmp_path))
    with muster.connect() as other:
        assert other.address == client.address
    with muster.connect("127.0.0.1:1") as other:
        assert other.address == "127.0.0.1:1"
    monkeypatch.delenv("MUSTER_COORDINATOR")
    with pytest.raises(muster.Unreachable, match="no cluster was named or started here"):
        muster.connect()
    with pytest.raises(muster.Unreachable, match=f"no cluster has been started in {tmp_path}"):
        muster.connect(folder=tmp_path)
    (tmp_path / "cluster.json").write_text((cluster / "cluster.json").read_text())
    (tmp_path / "lock").touch()
    with pytest.raises(muster.Unreachable, match=f"the cluster in {tmp_path} is not running"):
        muster.connect(folder=tmp_path)
    (tmp_path / "cluster.json").write_text("{")
    with pytest.raises(muster.Unreachable, match="cluster.json is damaged"):
        muster.connect(folder=tmp_path)


def test_an_address_where_nobody_answers_is_named_after_some_patience():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        start = time.monotonic()
        with muster.connect(address) as client, pytest.raises(muster.Unreachable, match=address):
            client.cluster()
        assert time.monotonic() - start > 2, "it was not tried again"


class Forwarder:
    """Passes connections on to an address, and can cut them: a coordinator that goes away and comes back."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._open = []
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            far = socket.create_connection(self._target)
            self._open += [near, far]
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(source, target), daemon=True).start()

    @staticmethod
    def _pass(source, target):
        try:
            while data := source.recv(1 << 16):
                target.sendall(data)
        except OSError:
            pass
        for each in (source, target):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        for each in self._open:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self._open.clear()

    def close(self):
        self._listener.close()
        self.cut()


def test_streams_and_calls_go_on_after_an_interruption(client):
    forwarder = Forwarder(client.address)
    try:
        with muster.connect(forwarder.address) as other:
            job = other.submit(endless_job("interrupted"))
            steps = 0
            for status in job.watch():
                if status.progress.step > steps:
                    steps = status.progress.step
                    forwarder.cut()
                if forwarder.connections > 3:
                    break
            forwarder.cut()
            text = job.logs(follow=True)
            seen = next(text)
            forwarder.cut()
            job.cancel()
            seen += "".join(text)
            # Nothing is missing and nothing comes twice; more may have come after the stream's end.
            assert "".join(job.logs()).startswith(seen) and seen.count("starts at step 0") == 2
            assert [each.id for each in other.jobs(name="interrupted")] == [job.id]
    finally:
        forwarder.close()


def test_what_is_repeated_is_what_the_proto_calls_safe():
    """Every rpc that the client makes by a way that repeats it has the sentence in its comment."""
    proto = (ROOT / "proto/job_service.proto").read_text()
    comments = {name: " ".join(text.split("//")) for text, name in re.findall(r"((?:  //.*\n)+)  rpc (\w+)", proto)}
    source = "".join(each.read_text() for each in (ROOT / "python/src/muster/aio").glob("*.py"))
    repeated = set(re.findall(r"(?:_call|_stream)\(\s*self\._stub\.(\w+)", source))
    once = set(re.findall(r"= self\._stub\.(\w+)\(", source))
    assert {"SubmitJob", "WatchJob", "ReadLogs", "ReadMetrics", "CancelJob", "DeleteJob"} <= repeated
    assert once == {"ExportJob"} and not once & repeated
    unsafe = [name for name in repeated if not re.search(r"retry\s+is\s+safe", comments[name])]
    assert not unsafe


def test_asyncio_has_the_same_names_and_works(client, tmp_path):
    (tmp_path / "job.yaml").write_text(FAILING_JOB)
    for kind in (muster.Client, muster.Job, muster.Checkpoint):
        public = {name for name in dir(kind) if not name.startswith("_")}
        assert public == {name for name in dir(getattr(muster.aio, kind.__name__)) if not name.startswith("_")}

    async def main():
        async with muster.aio.connect() as other:
            job = await other.submit(small_job(name="awaited"))
            states = [status.state async for status in job.watch()]
            assert states[-1] == status_pb2.SUCCEEDED
            assert (await job.wait()).progress.step == 60
            text = "".join(client.job(job.id).logs())
            assert "".join([part async for part in job.logs()]) == text
            assert (await job.metrics("train/loss"))["train/loss"].steps[-1] == 60
            assert len(await (await job.last_checkpoint()).tensors()) == 4
            # Two at a time, on one connection.
            first, second = await asyncio.gather(*(other.submit(endless_job(name)) for name in ("one", "two")))
            waiting = [asyncio.create_task(each.wait()) for each in (first, second)]
            await asyncio.gather(first.cancel(), second.cancel())
            ended = await asyncio.gather(*waiting, return_exceptions=True)
            assert [type(each) for each in ended] == [muster.JobCancelled] * 2
            with pytest.raises(muster.NotFound):
                await other.job("nobody")
            failing = await other.submit(muster.aio.Job.from_file(tmp_path / "job.yaml").set("data.csv.path", tmp_path / "none"))
            with pytest.raises(muster.JobFailed, match=f"job {failing.id} failed: slot [01] on worker ") as raised:
                await failing.wait()
            assert raised.value.slot in (0, 1) and any(str(tmp_path / "none") in line for line in raised.value.log_lines)

    asyncio.run(main())


def test_a_cluster_with_certificates_is_opened_by_the_files_that_its_folder_names(home, tmp_path):
    def openssl(*words):
        run("openssl", *words, cwd=tmp_path)

    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *curve, "-days", 1, "-subj", "/CN=authority", "-keyout", "a.key", "-out", "a.pem")
    openssl("req", *curve, "-subj", "/CN=here", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "k.key", "-out", "k.csr")
    openssl("x509", "-req", "-in", "k.csr", "-CA", "a.pem", "-CAkey", "a.key", "-CAcreateserial", "-days", 1,
            "-copy_extensions", "copy", "-out", "k.pem")  # fmt: skip
    files = [tmp_path / name for name in ("a.pem", "k.pem", "k.key")]
    (tmp_path / "k.key").chmod(0o600)
    flags = [f"--tls-{name}={file}" for name, file in zip(("authority", "certificate", "key"), files)]
    folder = tmp_path / "cluster"
    # A home of its own, so that the other cluster stays the usual one.
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    run(MUSTER, "up", "--servers", 0, "--workers", 1, "--data-dir", folder, *flags, env=environment)
    try:
        with muster.connect(folder=folder) as client:
            assert len(client.cluster().daemons) == 1
            address = client.address
        with muster.connect(address, tls=muster.Tls(*map(str, files))) as client:
            assert len(client.cluster().daemons) == 1
        with muster.connect(address) as client, pytest.raises(muster.Unreachable):
            client.cluster()
        with pytest.raises(muster.InvalidArgument, match="cannot read the TLS file /nowhere"):
            muster.connect(address, tls=muster.Tls("/nowhere", *map(str, files[1:])))
    finally:
        run(MUSTER, "down", "--data-dir", folder, env=environment)


def test_pages_of_jobs_are_read_to_the_end(client, monkeypatch):
    """With pages of one job each."""
    for name in ("paged-a", "paged-b", "paged-c"):
        client.submit(small_job(name=name, stop__steps=1)).wait(WAIT_SECONDS)
    sizes = []
    stub = client._stub.ListJobs

    def one_a_page(request, timeout):
        sizes.append(request.page_size)
        copy = job_service_pb2.ListJobsRequest()
        copy.CopyFrom(request)
        copy.page_size = 1
        return stub(copy, timeout=timeout)

    monkeypatch.setattr(client._stub, "ListJobs", one_a_page)
    assert [each.name for each in client.jobs(name="paged-*")] == ["paged-c", "paged-b", "paged-a"]
    assert len(sizes) >= 3
    assert len(client.jobs(name="paged-*", limit=2)) == 2


def test_jobs_say_what_they_are_and_go_through_a_pickle(client, small):
    (listed,) = client.jobs(name="small", limit=1)
    assert listed == small and {listed, small} == {small} and listed.name == "small"
    assert repr(listed) == f'<Job {small.id} "small" SUCCEEDED, step 60 of 60, at {client.address}>'
    # The list leaves most of the spec out.
    assert not listed.last_status.spec.HasField("model") and listed.status().spec.HasField("model")
    assert listed.last_status.spec.HasField("model")
    assert repr(muster.connect("h:1")) == "<Client of h:1>"
    again, other = pickle.loads(pickle.dumps([listed, client.job(small.id)]))
    assert again == listed and repr(again) == repr(listed) and again._client is other._client is not client
    assert again.state() == "SUCCEEDED"
    checkpoint = pickle.loads(pickle.dumps(small.last_checkpoint()))
    assert repr(checkpoint) == f"<Checkpoint {small.id}@60>" and checkpoint.verify() == []
    again._client.close()
    history = small.metrics("train/*")
    assert pickle.loads(pickle.dumps(history)) == history
    assert repr(history) == "<History of train/learning_rate (60 points), train/loss (60 points)>"
    draft = pickle.loads(pickle.dumps(small_job(name="pickled")))
    assert draft.spec.name == "pickled"


@pytest.mark.parametrize("error", [
    muster.Error("ABORTED", "a"), muster.InvalidArgument("b"), muster.NotFound("c"), muster.Unreachable("d"),
    muster.JobFailed("j1", "e", 3, ["last"]), muster.JobCancelled("j1", "f"), muster.CollectiveError("ABORTED", "g"),
    muster.NotFinite("h"),
], ids=lambda error: type(error).__name__)  # fmt: skip
def test_errors_go_through_a_pickle(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == str(error) and vars(again) == vars(error)


def write_table(path, rows):
    """A table in which the class is the number's sign."""
    lines = [f"{x},{int(x > 0)}" for x in (((7 * row) % 19 - 9.5) / 3 for row in range(rows))]
    path.write_text("\n".join(["x,y", *lines]) + "\n")


def test_a_checkpoint_is_evaluated_as_the_program_does(client, small, cluster, tmp_path):
    write_table(tmp_path / "train.csv", 400)
    write_table(tmp_path / "other.csv", 95)
    job = client.submit(small_job(
        name="signs", model__mlp__classes=2, checkpoint__keep=3,
        data={"csv": {"path": tmp_path / "train.csv", "label": "y", "numeric": ["x"]}, "holdout": 0.2},
    ))  # fmt: skip
    job.wait(WAIT_SECONDS)
    held_out = job.evaluations()
    assert [each.step for each in held_out] == [20, 40, 60] and held_out[-1].metric == "accuracy"
    on_held_out = job.evaluate()
    assert (on_held_out.step, on_held_out.value) == (60, held_out[-1].value)
    on_other = job.checkpoints()[0].evaluate(tmp_path / "other.csv", metric="loss")
    assert (on_other.step, on_other.metric, on_other.examples) == (20, "loss", 95)
    said = json.loads(run(MUSTER, "evaluate", f"{job.id}@20", "--data", tmp_path / "other.csv", "--metric", "loss",
                          "--output", "json", "--data-dir", cluster))  # fmt: skip
    assert (said["value"], said["loss"]) == (on_other.value, on_other.loss)
    assert (said["auc"], said["confusion"]) == (on_other.auc, on_other.confusion) and 0 <= on_other.auc <= 1
    no, yes = on_other.classes
    assert (no.label, yes.label, no.examples + yes.examples) == ("0", "1", 95)
    assert no.examples == sum(on_other.confusion[0]) == said["classes"][0]["examples"]
    assert said["classes"][1]["recall"] == yes.recall == on_other.confusion[1][1] / yes.examples
    assert held_out[-1].classes == [] and on_held_out.confusion
    # Nothing of the evaluations is left.
    assert not client.jobs(name="evaluate *")
    with pytest.raises(muster.JobFailed, match="nowhere.csv"):
        job.evaluate(tmp_path / "nowhere.csv")
    with pytest.raises(muster.InvalidArgument, match="the job's data is synthetic; leave data out"):
        small.evaluate(tmp_path)


def test_a_job_goes_on_from_a_checkpoint(client, small):
    longer = small.restore(steps=80)
    assert longer.wait(WAIT_SECONDS).progress.step == 80 and longer.status().spec.resume_from == f"{small.id}@60"
    assert longer.metrics("train/loss")["train/loss"].steps == list(range(61, 81))
    again = small.checkpoints()[0].restore()
    assert again.wait(WAIT_SECONDS).progress.step == 60 and again.status().spec.resume_from == f"{small.id}@40"
    with pytest.raises(muster.InvalidArgument, match="steps is 1 and epochs is 2; give one of them"):
        small.restore(steps=1, epochs=2)


TRANSFORMER = {
    "name": "text",
    "model": {"transformer": {"layers": 1, "width": 16, "heads": 2, "context": 16}},
    "data": {"sequences": {"tokenizer": "bytes"}, "holdout": 0.2},
    "optimizer": {"name": "adam", "learning_rate": 0.01},
    "update": {"dense": "all_reduce"},
    "workers": 1,
    "batch_size": 8,
    "stop": {"steps": 5},
}


def test_text_is_generated_and_models_are_exported_by_the_program(client, tmp_path, monkeypatch):
    (tmp_path / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 40)
    draft = muster.Job.from_fields(TRANSFORMER).set("data.sequences.path", tmp_path / "text.txt")
    job = client.submit(draft)
    job.wait(WAIT_SECONDS)
    monkeypatch.setenv("MUSTER_PROGRAM", str(MUSTER))
    texts = {job.generate("the ", max_tokens=8, seed=seed) for seed in (1, 1, 2)}
    assert len(texts) == 2 and all(0 < len(each.encode()) <= 32 for each in texts)
    with pytest.raises(muster.InvalidArgument, match="the prompt is empty"):
        job.generate("")
    job.export(tmp_path / "model", format="huggingface")
    assert {"config.json", "model.safetensors"} <= {each.name for each in (tmp_path / "model").iterdir()}
    job.export(tmp_path / "weights.safetensors")
    with pytest.raises(muster.Error, match="weights.safetensors"):
        job.export(tmp_path / "weights.safetensors")
    job.export(tmp_path / "weights.safetensors", force=True)
    measured = job.evaluate(metric="perplexity")
    assert measured.metric == "perplexity" and measured.value == pytest.approx(math.exp(measured.loss))

    async def main():
        async with muster.aio.connect() as other:
            return await (await other.job(job.id)).generate("the ", max_tokens=8, seed=2)

    assert asyncio.run(main()) in texts
    monkeypatch.setenv("MUSTER_PROGRAM", "/nowhere/muster")
    with pytest.raises(muster.NotFound, match="MUSTER_PROGRAM is /nowhere/muster, which is no program; install Muster's"):
        job.generate("the ")
    monkeypatch.delenv("MUSTER_PROGRAM")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(muster.NotFound, match="`muster export` is needed, and the program muster is not in PATH"):
        job.export(tmp_path / "x")


TABLE = {
    "name": "table",
    "model": {"logistic_regression": {}},
    "data": {"csv": {"label": "y", "numeric": ["x"]}},
    "optimizer": {"name": "sgd", "learning_rate": 0.5},
    "update": {"dense": "all_reduce"},
    "workers": 1,
    "batch_size": 20,
    "stop": {"steps": 20},
}


def test_examples_of_a_file_are_predicted_by_the_program(client, small, tmp_path, monkeypatch):
    records = [(x, "high" if x > 20 else "low") for x in range(40)]
    (tmp_path / "table.csv").write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in records))
    job = client.submit(muster.Job.from_fields(TABLE).set("data.csv.path", tmp_path / "table.csv"))
    job.wait(WAIT_SECONDS)
    monkeypatch.setenv("MUSTER_PROGRAM", str(MUSTER))
    out = tmp_path / "predicted.csv"
    assert job.predict(tmp_path / "table.csv", out) == 40
    with open(out, newline="") as file:
        rows = list(csv.DictReader(file))
    right = sum(row["predicted"] == row["y"] for row in rows)
    assert right / 40 == pytest.approx(job.evaluate(tmp_path / "table.csv", metric="accuracy").value) and right > 30
    assert all(float(row["probability_high"]) + float(row["probability_low"]) == pytest.approx(1) for row in rows)
    with pytest.raises(muster.InvalidArgument, match="predicted.csv is there already"):
        job.predict(tmp_path / "table.csv", out)
    (tmp_path / "new.csv").write_text("x\n3\n")
    assert job.last_checkpoint().predict(tmp_path / "new.csv", out, force=True) == 1
    with pytest.raises(muster.NotFound, match="there is no file .*nowhere.csv"):
        job.predict(tmp_path / "nowhere.csv", out, force=True)
    with pytest.raises(muster.InvalidArgument, match=f"job {small.id} learns from synthetic data"):
        small.predict(tmp_path / "new.csv", tmp_path / "x.csv")

    async def main():
        async with muster.aio.connect() as other:
            return await (await other.job(job.id)).predict(tmp_path / "new.csv", out, force=True)

    assert asyncio.run(main()) == 1


def test_only_transformers_generate(small, monkeypatch):
    monkeypatch.setenv("MUSTER_PROGRAM", str(MUSTER))
    with pytest.raises(muster.InvalidArgument, match=f"job {small.id} trains a model mlp; .* takes a transformer"):
        small.generate("x")
