"""A run on a Dask cluster whose messages are encrypted. SPDX-License-Identifier: Apache-2.0"""

import os
import socket

import pytest
from diffusion_tasks import content, read_slowly
from distributed import Client, LocalCluster
from distributed.security import Security
from test_diffusion import events, files  # noqa: F401

from thalweg.diffusion import Diffusion, File
from thalweg.diffusion.cache.item import Item
from thalweg.diffusion.peers.client import PeerFailed, Peers
from thalweg.diffusion.peers.server import PeerServer


def test_a_run_goes_over_tls_and_its_peers_serve_nobody_else(tmp_path, files):  # noqa: F811
    lengths = [len(content(path)) for path in files]
    calls = [(File(path), at, "") for at, path in enumerate(files * 5)]
    folder = tmp_path / "run"
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, security=Security.temporary(), dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
        Diffusion(client, policy="mcu", cache_folder=tmp_path / "cache", run_folder=folder) as run,
    ):
        assert client.scheduler.address.startswith("tls://")
        assert [result.value for result in run.map(read_slowly, calls[:12]).in_order()] == list(zip(lengths, range(12)))
        # From now on only a peer has them.
        for path in files:
            os.unlink(path)
        cluster.scale(2)
        client.wait_for_workers(2)
        results = list(run.map(read_slowly, calls).in_order())
        assert [result.value for result in results] == list(zip(lengths * 5, range(60)))
        token, addresses = client.run_on_scheduler(peers)
        tls = client.security.get_connection_args("worker")["ssl_context"]
        assert any(has(token, address, files[0], tls) for address in addresses)
        assert not any(has("a token of another run", address, path, tls) for address in addresses for path in files)
        assert not any(has(token, address, files[0], None) for address in addresses), "nothing goes in the clear"
    sources = [source for record in events(folder, "done") for source, _ in record["inputs"]]
    assert sources.count("store") == 12 and sources.count("peer") > 0


def test_the_oldest_stranger_goes_when_too_many_come_before_their_handshake(monkeypatch):
    monkeypatch.setattr("thalweg.diffusion.peers.server._MAX_STRANGERS", 2)
    monkeypatch.setattr("thalweg.diffusion.peers.server._INTRODUCTION_TIMEOUT_S", 60)
    security = Security.temporary()
    tls = security.get_listen_args("worker")["ssl_context"]
    server = PeerServer("127.0.0.1", "token", lambda key: None, None, tls)
    host, port = server.address.split(":")
    asking = Peers("token", tls=security.get_connection_args("worker")["ssl_context"])
    strangers = [socket.create_connection((host, int(port)), timeout=20) for _ in range(5)]
    try:
        assert [stranger.recv(1) for stranger in strangers[:3]] == [b""] * 3
        # One that shows the token takes nobody's place, and the fourth goes for it.
        with pytest.raises(PeerFailed, match="does not have it"), asking.ask(server.address, Item("x"), None):
            pass
        assert strangers[3].recv(1) == b""
    finally:
        asking.close()
        server.close()
        for stranger in strangers:
            stranger.close()


def peers(dask_scheduler):
    (plugin,) = (plugin for name, plugin in dask_scheduler.plugins.items() if name.startswith("thalweg-diffusion"))
    return plugin.options.token, list(plugin._coordinator._addresses)


def has(token, address, path, tls):
    try:
        with Peers(token, tls=tls).ask(address, Item(path), None):
            return True
    except PeerFailed:
        return False
