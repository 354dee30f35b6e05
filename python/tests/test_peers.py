"""Shelves that fetch from each other: only this run's, only what it may, never a wrong byte.

SPDX-License-Identifier: Apache-2.0
"""

import concurrent.futures
import os
import pickle
import random
import socket
import threading
import time
from pathlib import Path

import pytest
from test_worker_cache import flip
from worker_caches import SIZE, brought, content_of, files_of, item_of, partial_files_of, read_pinned, source  # noqa: F401 (fixture)

from thalweg.diffusion.cache.item import Item
from thalweg.diffusion.cache.worker_cache import PeerFailed, WorkerCache
from thalweg.diffusion.peers.handshake import Refused, admit, introduce, receive
from thalweg.diffusion.peers.message import Reply, receive_reply, receive_request, send_reply, send_request
from thalweg.diffusion.peers.throttle import BURST_S, Throttle


@pytest.fixture
def make(source, tmp_path):
    """Makes caches of one run, each in a folder of its own, that serve peers."""
    caches = []

    def one(name, token="the run's token", serve="127.0.0.1", **options):
        cache = WorkerCache(
            tmp_path / name, "1 MB", token=token, serve=serve, storage_options=source.options, **options
        )
        caches.append(cache)
        return cache

    yield one
    for cache in caches:
        cache.close()


@pytest.fixture
def pair(make):
    return make("first"), make("second")


def test_a_copy_comes_from_a_peer(source, pair):
    first, second = pair
    url = source.url("1.bin")
    for item in (Item(url), Item(url, 10, 200), Item(url, 10, 10)):
        digest = first.bring(item, "store", keep=True).digest
        arrival = second.bring(item, first.address, keep=True, digest=digest)
        assert (arrival.source, arrival.digest) == ("peer", digest)
        assert read_pinned(second, item) == content_of(1)[item.start : item.end]
    assert len(source.fetches()) == 2


def test_what_a_peer_sent_serves_other_peers_and_later_runs(source, pair, make):
    first, second = pair
    first.bring(item_of(source, 1), "store", keep=True)
    second.bring(item_of(source, 1), first.address, keep=True)
    third = make("third")
    arrival = third.bring(item_of(source, 1), second.address, keep=False)
    assert Path(arrival.path).read_bytes() == content_of(1) and not arrival.kept
    third.release(arrival)
    again = make("second", token="the next")
    assert again.bring(item_of(source, 1), "store", keep=True).source == "local" and len(source.fetches()) == 1


def test_only_what_is_in_this_runs_index_is_served(source, pair, make):
    first, second = pair
    item = item_of(source, 1)
    with pytest.raises(PeerFailed, match="does not have it"):
        second.bring(item, first.address, keep=True)
    first.bring(item, "store", keep=True)
    assert second.bring(item, first.address, keep=True).source == "peer"
    survivor = make("first", token="the next")
    other = make("other", token="the next")
    with pytest.raises(PeerFailed):
        other.bring(item, survivor.address, keep=True)
    survivor.allow([item.key])
    assert other.bring(item, survivor.address, keep=True).source == "peer"
    assert len(source.fetches()) == 1


def test_a_failure_says_what_failed(source, pair):
    first, second = pair
    with pytest.raises(PeerFailed) as failed:
        second.bring(item_of(source, 1), first.address, keep=True)
    for error in (failed.value, pickle.loads(pickle.dumps(failed.value))):
        assert (error.address, error.key) == (first.address, item_of(source, 1).key)
    assert not partial_files_of(second) and second.held_bytes() == 0


def test_damaged_copies_are_not_served(source, pair):
    first, second = pair
    item = item_of(source, 1)
    digest = first.bring(item, "store", keep=True).digest
    flip(files_of(first)[0])
    with pytest.raises(PeerFailed):
        second.bring(item, first.address, keep=True, digest=digest)
    assert first.lost() == [item.key] and second.held_bytes() == 0


def test_a_peer_with_another_content_is_refused(source, pair):
    first, second = pair
    item = item_of(source, 1)
    first.bring(item, "store", keep=True)
    with pytest.raises(PeerFailed, match="another digest"):
        second.bring(item, first.address, keep=True, digest=bytes(16))
    assert second.bring(item, first.address, keep=True).source == "peer"


def test_a_client_without_the_token_gets_nothing(source, make):
    first, stranger = make("first"), make("stranger", token="another")
    first.bring(item_of(source, 1), "store", keep=True)
    with pytest.raises(PeerFailed):
        stranger.bring(item_of(source, 1), first.address, keep=True)
    with pytest.raises(ValueError, match="token"):
        make("none", token="")


def test_a_server_without_the_token_is_refused(source, make):
    """A port that another server has taken over meanwhile."""

    def pretend(connection):
        connection.sendall(b"thalweg-peer 1\n" + bytes(32))
        receive(connection, 64)
        connection.sendall(bytes(32))

    with serving(pretend) as address, pytest.raises(PeerFailed, match="token"):
        make("first").bring(item_of(source, 1), address, keep=True)


def test_the_token_is_never_sent(source, pair):
    first, second = pair
    first.bring(item_of(source, 1), "store", keep=True)
    passed = bytearray()
    with relaying(first.address, passed) as address:
        second.bring(item_of(source, 1), address, keep=True)
    assert content_of(1) in passed and b"the run's token" not in passed


def test_bad_requests_close_the_connection_and_hurt_nobody(source, pair):
    first, second = pair
    first.bring(item_of(source, 1), "store", keep=True)
    dice = random.Random(1)
    host, port = first.address.rsplit(":", 1)
    for size in (0, 1, 63, 64, 1000, 100_000):
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            receive(connection, 15 + 32)
            sent_all(connection, dice.randbytes(size))
            assert ended(connection)
    for rubbish in (b"\xff" * 100_000, b"\0\0\0\0\0\5ab"):
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            introduce(connection, "the run's token")
            sent_all(connection, rubbish)
            assert ended(connection)
    assert second.bring(item_of(source, 1), first.address, keep=True).source == "peer"


def sent_all(connection, content):
    try:
        connection.sendall(content)
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def ended(connection):
    """Nothing but refusals comes, and then the end."""
    try:
        while piece := connection.recv(1000):
            assert piece.strip(b"\0") == b""
    except ConnectionError:
        pass
    return True


def dying(connection, announced, sent):
    admit(connection, "the run's token")
    receive_request(connection)
    send_reply(connection, announced)
    connection.sendall(sent)


@pytest.mark.parametrize("sent", [b"", b"x" * (SIZE - 1)])
def test_a_peer_that_dies_midway_leaves_nothing(source, make, sent):
    cache = make("first")
    with serving(lambda connection: dying(connection, Reply(SIZE, bytes(16), None), sent)) as address:
        with pytest.raises(PeerFailed, match="ended"):
            cache.bring(item_of(source, 1), address, keep=True)
    assert not partial_files_of(cache) and cache.held_bytes() == 0
    with pytest.raises(PeerFailed):
        cache.bring(item_of(source, 1), address, keep=True)
    assert brought(cache, item_of(source, 1)) == content_of(1)


def test_wrong_bytes_on_the_way_are_seen(source, make):
    cache = make("first")
    digest = make("second").bring(item_of(source, 1), "store", keep=True).digest
    for announced in (digest, None):
        with serving(lambda connection: dying(connection, Reply(SIZE, digest, None), b"x" * SIZE)) as address:
            with pytest.raises(PeerFailed, match="digest"):
                cache.bring(item_of(source, 1), address, keep=True, digest=announced)
    assert not partial_files_of(cache) and cache.held_bytes() == 0


def test_many_ask_at_once_over_connections_that_are_kept(source, make):
    first, others = make("first"), [make(f"other{number}") for number in range(3)]
    items = [Item(source.url("1.bin"), start, start + 100) for start in range(0, 900, 10)]
    for item in items:
        first.bring(item, "store", keep=True)
    with concurrent.futures.ThreadPoolExecutor(12) as threads:
        done = [threads.submit(cache.bring, item, first.address, keep=True) for item in items for cache in others]
        assert {one.result().source for one in done} <= {"peer", "local"}
    for item in items:
        assert all(read_pinned(cache, item) == content_of(1)[item.start : item.end] for cache in others)


def test_a_peer_that_was_started_again_is_asked_again(source, make):
    first, second = make("first"), make("second")
    for number in (1, 2):
        first.bring(item_of(source, number), "store", keep=True)
    second.bring(item_of(source, 1), first.address, keep=True)
    address = first.address
    first.close()
    with pytest.raises(PeerFailed):
        second.bring(item_of(source, 2), address, keep=True)
    make("first", serve=address)
    assert second.bring(item_of(source, 2), address, keep=True).source == "peer"


def test_a_forked_child_asks_over_connections_of_its_own(source, pair):
    first, second = pair
    items = [Item(source.url("1.bin"), start, start + 10) for start in range(200)]
    for item in items:
        first.bring(item, "store", keep=True)
    address = first.address
    second.bring(items[0], address, keep=True)
    child = os.fork()
    mine = items[1::2] if child == 0 else items[2::2]
    good = all(second.bring(item, address, keep=True).source == "peer" for item in mine)
    if child == 0:
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0 and good
    assert all(read_pinned(second, item) == content_of(1)[item.start : item.end] for item in items)


class Time:
    """A clock that goes on only when a thread sleeps."""

    def __init__(self):
        self.now = 100.0

    def clock(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


def test_a_throttle_lets_pass_what_its_rate_says():
    time = Time()
    throttle = Throttle(1000, time.clock, time.sleep)
    for _ in range(100):
        throttle.take(50)
    assert time.now == pytest.approx(105)
    time.now += 60
    throttle.take(100)
    assert time.now == pytest.approx(165), "a pause earns a tenth of a second"
    throttle.take(1000)
    assert time.now == pytest.approx(166)
    assert throttle.slice_bytes(1 << 20) == 50 and BURST_S == 0.1
    with pytest.raises(ValueError):
        Throttle(0)


def test_peers_are_served_at_the_rate(source, make):
    first, second = make("first", peer_bytes_per_s=1000), make("second")
    time = Time()
    first._server._throttle = Throttle(1000, time.clock, time.sleep)
    for number in (1, 2, 3):
        first.bring(item_of(source, number), "store", keep=True)
        second.bring(item_of(source, number), first.address, keep=True)
    assert time.now == pytest.approx(103)


def test_messages_survive_the_way():
    here, there = socket.socketpair()
    with here, there:
        for key in ("s3://x", "\udcff", "k" * 65535):
            send_request(here, key)
            assert receive_request(there) == key
        with pytest.raises(ValueError):
            send_request(here, "k" * 65536)
        for reply in (None, Reply(1 << 40, bytes(range(16)), "v"), Reply(0, bytes(16), None)):
            send_reply(there, reply)
            assert receive_reply(here) == reply
        there.sendall(b"?")
        with pytest.raises(ConnectionError):
            receive_reply(here)


def test_introductions_that_are_said_again_are_refused():
    here, there = socket.socketpair()
    with here, there, concurrent.futures.ThreadPoolExecutor(1) as threads:
        admitted = threads.submit(admit, there, "t")
        answer = receive(here, 15 + 32)
        here.sendall(bytes(64))
        with pytest.raises(Refused):
            admitted.result()
        assert answer.startswith(b"thalweg-peer 1\n")


class serving:
    """A peer with a scripted first connection, and is gone."""

    def __init__(self, converse):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.thread = threading.Thread(target=self._run, args=(converse,))

    def _run(self, converse):
        connection, _ = self.socket.accept()
        self.socket.close()
        with connection:
            converse(connection)

    def __enter__(self):
        self.thread.start()
        return f"127.0.0.1:{self.socket.getsockname()[1]}"

    def __exit__(self, *_):
        self.thread.join()


class relaying(serving):
    """Passes on what is said both ways, and writes it down."""

    def __init__(self, address, passed):
        self.address, self.passed = address, passed
        super().__init__(self._relay)

    def _relay(self, near):
        host, port = self.address.rsplit(":", 1)
        with socket.create_connection((host, int(port))) as far:
            back = threading.Thread(target=self._pass, args=(far, near), daemon=True)
            back.start()
            self._pass(near, far)

    def _pass(self, come, go):
        try:
            while piece := come.recv(1 << 16):
                self.passed += piece
                go.sendall(piece)
        except OSError:
            pass

    def __exit__(self, *_):
        # The connection is kept for the next time.
        pass


def introduced_to(address):
    host, port = address.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)), timeout=20)
    introduce(connection, "the run's token")
    return connection


def test_a_peer_that_is_busy_says_so_and_keeps_its_copy(source, pair, monkeypatch):
    monkeypatch.setattr("thalweg.diffusion.peers.server._MAX_CONNECTIONS", 2)
    first, second = pair
    first.bring(item_of(source, 1), "store", keep=True)
    others = [introduced_to(first.address) for _ in range(2)]
    with pytest.raises(PeerFailed) as failed:
        second.bring(item_of(source, 1), first.address, keep=True)
    assert failed.value.is_busy and first.lost() == []
    for other in others:
        other.close()
    end = time.monotonic() + 20
    while True:
        try:
            assert second.bring(item_of(source, 1), first.address, keep=True).source == "peer"
            break
        except PeerFailed as error:
            assert error.is_busy and time.monotonic() < end
            time.sleep(0.05)


def test_strangers_take_nobodys_place_and_are_dropped_soon(source, pair):
    first, second = pair
    first.bring(item_of(source, 1), "store", keep=True)
    host, port = first.address.rsplit(":", 1)
    strangers = [socket.create_connection((host, int(port)), timeout=20) for _ in range(300)]
    assert second.bring(item_of(source, 1), first.address, keep=True).source == "peer"
    begun = time.monotonic()
    # One that says a little now and then, too.
    for stranger in strangers:
        sent_all_but_the_end(stranger, b"x")
    for stranger in strangers:
        receive_all(stranger)
        stranger.close()
    assert time.monotonic() - begun < 15


def sent_all_but_the_end(connection, content):
    try:
        connection.sendall(content)
    except OSError:
        pass


def receive_all(connection):
    try:
        while connection.recv(1000):
            pass
    except ConnectionError:
        pass
