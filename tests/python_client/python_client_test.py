"""Trains against muster-server over gRPC, with nothing but what the protos say. Cases run in the order of this file; the
last one stops the server. Without grpcio all are skipped."""

import array
import queue
import signal
import struct
import subprocess
import tempfile
import time

import pytest

grpc = pytest.importorskip("grpc")
pytest.importorskip("google.protobuf")
from proto import job_pb2, parameter_service_pb2, parameter_service_pb2_grpc, schema_pb2  # noqa: E402

BINARY = "server/muster-server"
TIMEOUT = 60
LEARNING_RATE = 0.5
DIM = 2
INVALID_ARGUMENT, NOT_FOUND = 3, 5


def floats(values):
    return array.array("f", values).tobytes()


def to_floats(payload):
    values = array.array("f")
    values.frombytes(payload)
    return list(values)


def keys(values):
    return struct.pack(f"<{len(values)}Q", *values)


class Server:
    """A muster-server process of our own."""

    def __init__(self, binary):
        self.folder = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen(
            [binary, "--standalone", "--listen", "127.0.0.1:0", "--data-dir", self.folder.name + "/data"],
            stdout=subprocess.PIPE,
            text=True,
        )
        line = self.process.stdout.readline()
        if "listening on " not in line:
            raise RuntimeError(f"the server did not start: {line!r}")
        self.address = line.split("listening on ")[1].strip()

    def stop(self):
        """Exit code, and the seconds it took."""
        start = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(TIMEOUT)
        return code, time.monotonic() - start

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.folder.cleanup()


class Stream:
    """An Exchange stream: one operation at a time, or several in flight."""

    def __init__(self, stub):
        self.requests = queue.Queue()
        self.replies = stub.Exchange(iter(self.requests.get, None), timeout=TIMEOUT)
        self.next_id = 0

    def send(self, job, clock, payload=b"", slot=0, **operation):
        self.next_id += 1
        self.requests.put(
            parameter_service_pb2.ExchangeRequest(
                request_id=self.next_id,
                job_id=job,
                generation=1,
                partition=0,
                slot=slot,
                incarnation=1,
                clock=clock,
                payload=payload,
                **operation,
            )
        )
        return self.next_id

    def receive(self):
        return next(self.replies)

    def call(self, *arguments, **keywords):
        request_id = self.send(*arguments, **keywords)
        reply = self.receive()
        assert reply.request_id == request_id, (reply.request_id, request_id)
        return reply

    def ok(self, *arguments, **keywords):
        reply = self.call(*arguments, **keywords)
        assert reply.code == 0, (reply.code, reply.message)
        return reply

    def close(self):
        self.requests.put(None)
        for reply in self.replies:
            raise AssertionError(f"unexpected reply {reply}")


def open_tables(stub, job, slots=1):
    """Tensor w of 6 elements, all 0.5, and a sparse table whose rows start as (0.25, 0.25)."""
    constant = schema_pb2.Initializer.CONSTANT
    schema = schema_pb2.TablesSchema(
        tensors=[
            schema_pb2.TensorSchema(
                name="w", shape=[2, 3], initializer=schema_pb2.Initializer(kind=constant, value=0.5)
            )
        ],
        sparse=[
            schema_pb2.SparseTableSchema(
                name="e", dim=DIM, initializer=schema_pb2.Initializer(kind=constant, value=0.25)
            )
        ],
        partitions=1,
        block_bytes=16,
        optimizer=job_pb2.OptimizerSpec(name="sgd", learning_rate=LEARNING_RATE),
        schedule=job_pb2.ScheduleSpec(name="constant"),
        total_steps=10,
    )
    road = job_pb2.UpdateSpec.PARAMETER_SERVER
    return stub.OpenTables(
        parameter_service_pb2.OpenTablesRequest(
            job_id=job,
            generation=1,
            shard_map_version=1,
            slots=slots,
            schema=schema,
            update=job_pb2.UpdateSpec(
                dense=road,
                sparse=road,
                durability=job_pb2.UpdateSpec.CHECKPOINT,
                partitions=1,
                block_bytes=16,
            ),
            partitions=[parameter_service_pb2.PartitionTerm(partition=0, term=1)],
        ),
        timeout=TIMEOUT,
    )


def dense_push(examples):
    return parameter_service_pb2.DensePush(first_block=0, blocks=2, examples=examples)


DENSE_PULL = dict(first_block=0, blocks=2)


@pytest.fixture(scope="module")
def server():
    server = Server(BINARY)
    yield server
    server.close()


@pytest.fixture(scope="module")
def channel(server):
    with grpc.insecure_channel(server.address) as channel:
        yield channel


@pytest.fixture(scope="module")
def stub(channel):
    return parameter_service_pb2_grpc.ParameterServiceStub(channel)


def test_trains_one_step_of_sgd(stub):
    reply = open_tables(stub, "dense")
    assert list(reply.partitions[0].closed) == [0], reply
    stream = Stream(stub)
    pulled = stream.ok("dense", 0, dense_pull=parameter_service_pb2.DensePull(**DENSE_PULL))
    assert to_floats(pulled.payload) == [0.5] * 6, to_floats(pulled.payload)
    gradient = [0.0, 1.0, 2.0, 3.0, 4.0, -8.0]
    stream.ok("dense", 0, floats(gradient), dense_push=dense_push(4))
    stream.ok("dense", 0, close=parameter_service_pb2.CloseClock(examples=4, sparse_chunks=[0]))
    pulled = stream.ok("dense", 1, dense_pull=parameter_service_pb2.DensePull(**DENSE_PULL))
    expected = [0.5 - LEARNING_RATE * g / 4 for g in gradient]
    assert to_floats(pulled.payload) == expected, (to_floats(pulled.payload), expected)
    assert pulled.slowest_clock == 1, pulled
    stream.close()


def test_trains_sparse_rows(stub):
    open_tables(stub, "sparse")
    stream = Stream(stub)
    table = 1
    push = parameter_service_pb2.SparsePush(table=table, chunk=0, rows=2, examples=2)
    stream.ok("sparse", 0, keys([7, 2**63]) + floats([1, 2, 3, 4]), sparse_push=push)
    stream.ok(
        "sparse", 0, close=parameter_service_pb2.CloseClock(examples=2, sparse_chunks=[1], no_dense=True)
    )
    pull = parameter_service_pb2.SparsePull(table=table, rows=3)
    rows = to_floats(stream.ok("sparse", 1, keys([2**63, 5, 7]), sparse_pull=pull).payload)
    expected = [0.25 - 0.5 * 3 / 2, 0.25 - 0.5 * 4 / 2, 0.25, 0.25, 0.25 - 0.5 * 1 / 2, 0.25 - 0.5 * 2 / 2]
    assert rows == expected, (rows, expected)
    stream.close()


def test_sums_two_workers_and_divides_once(stub):
    open_tables(stub, "two", slots=2)
    streams = [Stream(stub), Stream(stub)]
    # Parked until both have closed the clock.
    streams[0].ok("two", 0, floats([1.0] * 6), dense_push=dense_push(3))
    streams[0].ok("two", 0, close=parameter_service_pb2.CloseClock(examples=3, sparse_chunks=[0]))
    waiting = streams[0].send("two", 1, dense_pull=parameter_service_pb2.DensePull(**DENSE_PULL))
    streams[1].ok("two", 0, floats([5.0] * 6), slot=1, dense_push=dense_push(1))
    streams[1].ok("two", 0, slot=1, close=parameter_service_pb2.CloseClock(examples=1, sparse_chunks=[0]))
    reply = streams[0].receive()
    assert reply.request_id == waiting and reply.code == 0, reply
    assert to_floats(reply.payload) == [0.5 - LEARNING_RATE * (1 + 5) / 4] * 6, to_floats(reply.payload)
    for stream in streams:
        stream.close()


def test_repeated_pushes_count_once(stub):
    open_tables(stub, "twice")
    stream = Stream(stub)
    first = stream.ok("twice", 0, floats([1.0] * 6), dense_push=dense_push(1))
    again = stream.ok("twice", 0, floats([1.0] * 6), dense_push=dense_push(1))
    assert not first.already_applied and again.already_applied, (first, again)
    stream.ok("twice", 0, close=parameter_service_pb2.CloseClock(examples=1, sparse_chunks=[0]))
    pulled = stream.ok("twice", 1, dense_pull=parameter_service_pb2.DensePull(**DENSE_PULL))
    assert to_floats(pulled.payload) == [0.0] * 6, to_floats(pulled.payload)
    stream.close()


def test_bad_requests_are_named_and_the_stream_goes_on(stub):
    open_tables(stub, "bad")
    stream = Stream(stub)
    short = stream.call("bad", 0, floats([1.0] * 5), dense_push=dense_push(1))
    assert short.code == INVALID_ARGUMENT and "20" in short.message and "24" in short.message, short
    unknown = stream.call("nobody", 0, dense_pull=parameter_service_pb2.DensePull(**DENSE_PULL))
    assert unknown.code == NOT_FOUND and "nobody" in unknown.message, unknown
    pulled = stream.ok("bad", 0, dense_pull=parameter_service_pb2.DensePull(**DENSE_PULL))
    assert to_floats(pulled.payload) == [0.5] * 6, to_floats(pulled.payload)
    stream.close()


def test_dropped_tables_are_gone(stub):
    open_tables(stub, "dropped")
    for _ in range(2):
        stub.DropTables(parameter_service_pb2.DropTablesRequest(job_id="dropped"), timeout=TIMEOUT)
    stream = Stream(stub)
    reply = stream.call("dropped", 0, dense_pull=parameter_service_pb2.DensePull(**DENSE_PULL))
    assert reply.code == NOT_FOUND, reply
    stream.close()


def test_answers_health_and_reflection(channel):
    check = channel.unary_unary("/grpc.health.v1.Health/Check")
    assert check(b"", timeout=TIMEOUT) == b"\x08\x01", "status is not SERVING"
    reflect = channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
    replies = reflect(iter([b"\x3a\x00"]), timeout=TIMEOUT)
    assert b"muster.v1.ParameterService" in next(replies)


def test_stops_cleanly_with_streams_open(stub, server):
    open_tables(stub, "open", slots=2)
    stream = Stream(stub)
    # A pull that is parked: the other slot has not closed the clock.
    stream.ok("open", 0, close=parameter_service_pb2.CloseClock(examples=1, sparse_chunks=[0], no_dense=True))
    stream.send("open", 1, dense_pull=parameter_service_pb2.DensePull(**DENSE_PULL))
    code, seconds = server.stop()
    assert code == 0 and seconds < 5, (code, seconds)
    try:
        reply = stream.receive()
        assert reply.code == grpc.StatusCode.UNAVAILABLE.value[0], reply
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.UNAVAILABLE, error
