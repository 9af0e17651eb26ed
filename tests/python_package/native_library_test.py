"""The shared libraries under the package: how they are loaded, what callbacks raise, and who may use a handle when."""

import base64
import ctypes
import dataclasses
import os
import signal
import socket
import threading

import pytest
from program_test import task  # noqa: F401

import muster
from muster import _native, _native_library, _servers
from muster.v1 import job_pb2, status_pb2

LIBRARIES = pytest.mark.parametrize("module", [_native, _servers], ids=["native", "servers"])


@pytest.fixture
def unloaded():
    """Has libraries loaded anew, in the test and after it."""
    _native_library.load.cache_clear()
    yield
    _native_library.load.cache_clear()


@LIBRARIES
def test_an_installation_without_a_library_says_so(unloaded, monkeypatch, module):
    variable = module._LIBRARY.variable
    monkeypatch.setenv(variable, "/nowhere/lib.so")
    with pytest.raises(muster.Error, match=f"cannot be loaded .*/nowhere/lib.so.* name the library in {variable}") as raised:
        module.library()
    assert raised.value.code == "UNIMPLEMENTED"


@LIBRARIES
def test_a_library_of_another_release_is_refused(module):
    other = dataclasses.replace(module._LIBRARY, abi_version=999)
    with pytest.raises(muster.Error, match="has version [0-9]+ of the functions, and this package takes 999"):
        _native_library.load(other)


@LIBRARIES
def test_a_library_is_loaded_once(module):
    assert module.library() is module.library()


@pytest.mark.parametrize("rank", [-1, 1])
def test_a_rank_that_cannot_be_is_named(rank):
    endpoint = _native.Endpoint(_native.EndpointOptions(host="127.0.0.1"))
    with pytest.raises(muster.InvalidArgument, match=f"rank is {rank}; there are 1, counted from 0"):
        endpoint.connect("world", 1, b"secret", [endpoint.address()], rank, 1.0)


class FakeLibrary:
    """Functions that note in which order they ended."""

    def __init__(self):
        self.ended = []
        self.during_start = lambda: None

    def muster_start(self, group, call, work):
        self.during_start()
        self.ended.append("start")
        return 0

    def muster_abort(self, group, reason):
        self.ended.append("abort")

    def muster_recorded_calls(self, group, take, context):
        call = _native._RecordedCall(sequence=7)
        take(None, ctypes.byref(call))
        take(None, ctypes.byref(call))

    def muster_group_free(self, group):
        self.ended.append("free")

    def muster_work_free(self, work):
        pass


@pytest.fixture
def fake(monkeypatch):
    library = FakeLibrary()
    monkeypatch.setattr(_native, "library", lambda: library)
    return library


class WatchedLock:
    """A lock that tells when a thread asks for it while another has it."""

    def __init__(self):
        self._lock = threading.RLock()
        self.is_awaited = threading.Event()

    def __enter__(self):
        if not self._lock.acquire(blocking=False):
            self.is_awaited.set()
            self._lock.acquire()

    def __exit__(self, *_):
        self._lock.release()


def test_an_abort_waits_for_a_start_that_is_under_way(fake):
    group = _native.Group(None, ctypes.c_void_p(1))
    lock = group._lock = WatchedLock()

    def abort():
        group.abort("the test")
        # Also if nobody held the lock.
        lock.is_awaited.set()

    aborting = threading.Thread(target=abort)

    def during_start():
        aborting.start()
        lock.is_awaited.wait()

    fake.during_start = during_start
    group.start(_native.Call())
    aborting.join()
    assert fake.ended == ["start", "abort"]


def test_a_group_that_was_left_takes_no_calls(fake):
    group = _native.Group(None, ctypes.c_void_p(1))
    group.leave()
    group.leave()
    group.abort("the test")
    with pytest.raises(muster.CollectiveError, match="this rank has left the group"):
        group.start(_native.Call())
    assert group.recorded_calls() == [] and fake.ended == ["free"]


def test_a_signal_handler_may_abort_during_a_start(fake):
    group = _native.Group(None, ctypes.c_void_p(1))
    fake.during_start = lambda: group.abort("the test")
    group.start(_native.Call())
    assert fake.ended == ["abort", "start"]


def test_what_a_callback_of_recorded_calls_raises_comes_out(fake, monkeypatch):
    group = _native.Group(None, ctypes.c_void_p(1))

    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_native, "_recorded", interrupted)
    with pytest.raises(KeyboardInterrupt):
        group.recorded_calls()
    monkeypatch.setattr(_native, "_recorded", lambda call: call.sequence)
    assert group.recorded_calls() == [7, 7]


def varint(number):
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def order_of(address):
    """A serialised TaskOrder (proto/cluster_service.proto, whose messages the package has not) of tables on one server."""
    spec = job_pb2.JobSpec(workers=1)
    spec.update.dense = job_pb2.UpdateSpec.PARAMETER_SERVER
    spec.update.partitions = 1
    shards = status_pb2.ShardMap(job_id="j1", generation=1, version=1)
    shards.partitions.add().replicas.add(server_id="s0", address=address, role=status_pb2.Replica.PRIMARY)
    texts = {1: b"j1", 2: spec.SerializeToString(), 6: shards.SerializeToString(), 11: b"/nowhere"}
    numbers = {3: 1, 5: 1}
    encoded = [varint(field << 3 | 2) + varint(len(text)) + text for field, text in texts.items()]
    return b"".join([*encoded, *(varint(field << 3) + varint(number) for field, number in numbers.items())])


SCHEMA = {
    "tensors": [{"name": "w", "shape": [2], "initializer": {"kind": "CONSTANT"}}],
    "optimizer": {"name": "sgd", "learning_rate": 0.1},
}


@pytest.fixture
def lost_server(task):  # noqa: F811
    """A task of a job whose only server cannot be reached, so that the newest map of servers is asked for."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        order = order_of(f"127.0.0.1:{unused.getsockname()[1]}")
        task.answers["servers"] = {"ok": True, "order": base64.b64encode(order).decode(), "begins": False, "tls": None}
        yield task


def open_tables():
    value = (ctypes.c_float * 2)()
    return _servers.Servers(SCHEMA, {}, [ctypes.addressof(value)])


def test_an_interrupt_while_servers_are_awaited_comes_out_of_the_call(lost_server):
    lost_server.before["shard_map"] = lambda: os.kill(os.getpid(), signal.SIGINT)
    lost_server.answers["shard_map"] = {"ok": True, "map": ""}
    with pytest.raises(KeyboardInterrupt):
        open_tables()


def test_an_answer_that_is_no_map_comes_out_of_the_call(lost_server):
    lost_server.answers["shard_map"] = {"ok": True, "map": None}
    with pytest.raises(TypeError):
        open_tables()


def test_an_empty_map_of_servers_is_an_error(lost_server):
    lost_server.answers["shard_map"] = {"ok": True, "map": ""}
    with pytest.raises(muster.Error, match="shard_map wrote 0 bytes, which are no map of the job's servers") as raised:
        open_tables()
    assert raised.value.code == "ABORTED"


def test_a_fenced_task_waits_for_no_server(lost_server):
    lost_server.answers["shard_map"] = {"ok": False, "code": "ABORTED", "message": "the task is fenced"}
    with pytest.raises(muster.Error, match="the job is ending, or its coordinator cannot be reached") as raised:
        open_tables()
    assert raised.value.code == "ABORTED"
