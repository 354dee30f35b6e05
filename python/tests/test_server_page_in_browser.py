"""The live pages of a node and a gate as a browser shows them. SPDX-License-Identifier: Apache-2.0"""

import json
import os
import socket
import subprocess
import urllib.request

import pytest
from conftest import COMMAND
from test_page_in_browser import NARROW, WIDE, browser, lowest_contrast, quiet_console, smallest_letters  # noqa: F401

import thalweg

BAD = "</td><img src=x onerror=\"document.title='stolen'\">"
CONTENT = os.urandom(1 << 20) * 8


@pytest.fixture
def node(tmp_path):
    """Its address and that of its pages."""
    store = str(tmp_path / "store")
    thalweg.create(store)
    command = [COMMAND, "--json", "node", store, "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]
    process = subprocess.Popen([*command, "--share", "climate=4"], stdout=subprocess.PIPE, text=True)
    announced = json.loads(process.stdout.readline())
    yield announced["listening"], announced["metrics"], process
    process.kill()
    process.wait()
    process.stdout.close()


def put(tmp_path, address, application, name):
    file = tmp_path / name
    file.write_bytes(CONTENT)
    environment = {**os.environ, "THALWEG_APPLICATION": application}
    subprocess.run([COMMAND, "--quiet", "put", file, f"thalweg://{address}::{name}"], env=environment, check=True)


def row(browser, name):
    """The cells of an application, by the titles of their columns."""
    return browser.evaluate(
        f"""(() => {{
            const titles = [...document.querySelectorAll("table")][0].querySelectorAll("th");
            const rows = [...document.querySelectorAll("table")][0].querySelectorAll("tbody tr");
            const found = [...rows].find((row) => row.firstChild.textContent === {json.dumps(name)});
            return found && Object.fromEntries([...titles].map((title, at) => [title.textContent, found.children[at].textContent]));
        }})()"""
    )


def check_looks(browser, name):
    for width in (NARROW, WIDE):
        for dark in (False, True):
            browser.view(width, dark=dark)
            browser.wait_for("document.getElementById('status').textContent.startsWith('Live')")
            assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it can be scrolled sideways"
            assert smallest_letters(browser) >= 12
            assert lowest_contrast(browser) >= 4.5
            if folder := os.environ.get("THALWEG_SCREENSHOTS"):
                browser.screenshot(f"{folder}/{name}-{width}-{'dark' if dark else 'light'}.png")


def test_a_nodes_page_shows_what_applications_store_while_they_do(browser, node, tmp_path):
    address, page, process = node
    browser.view(WIDE)
    browser.open(page)
    browser.wait_for("document.getElementById('status').textContent.startsWith('Live')")
    assert browser.evaluate("document.title") == f"Node {address} · Thalweg"
    browser.evaluate("window.same = 'still this page'")
    put(tmp_path, address, "climate", "first")
    put(tmp_path, address, BAD, "second")
    browser.wait_for("document.querySelectorAll('table')[0].querySelectorAll('tbody tr').length === 2")
    # The plots' interval ends within some seconds.
    browser.wait_for("/[MGk]B\\/s now|at most [1-9]/.test(document.querySelector('figcaption').textContent)")
    climate, stranger = row(browser, "climate"), row(browser, BAD)
    assert (climate["weight"], climate["written"]) == ("4", "8.0 MiB")
    assert 7 < float(climate["ratio"]) < 8.1, "one part in eight is new"
    assert (stranger["weight"], stranger["written"]) == ("1", "8.0 MiB")
    assert "MiB" not in stranger["stored"], "the store has it all"
    assert browser.evaluate("same") == "still this page"
    check_looks(browser, "node")
    assert browser.evaluate("document.title") == f"Node {address} · Thalweg", "what a client says is text"

    process.kill()
    browser.wait_for("document.getElementById('status').textContent.startsWith('It has not answered since')")
    assert row(browser, "climate")["written"] == "8.0 MiB", "its last state stays"
    browser.open("about:blank")
    # The browser itself notes each request without an answer.
    assert all("ERR_" in one for one in browser.console)
    browser.console.clear()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def test_a_gates_page_shows_its_applications_and_servers(browser, tmp_path):
    port, metrics, upstream = free_port(), free_port(), free_port()
    file = tmp_path / "gate.toml"
    file.write_text(
        f'metrics = "127.0.0.1:{metrics}"\n[[listen]]\nprotocol = "s3"\naddress = "127.0.0.1:{port}"\n'
        f'upstream = "127.0.0.1:{upstream}"\n[[application]]\nname = "climate"\nweight = 16\nmatch = {{ access_key = "A" }}\n'
    )
    gate = subprocess.Popen([COMMAND, "gate", "--config", file], stderr=subprocess.PIPE, text=True)
    try:
        while "listening on" not in (line := gate.stderr.readline()):
            assert line, "the gate ended"
        assert urllib.request.urlopen(f"http://127.0.0.1:{metrics}/health").read() == b"ok\n"
        browser.open(f"http://127.0.0.1:{metrics}/")
        browser.wait_for("document.getElementById('status').textContent.startsWith('Live')")
        assert row(browser, "climate")["weight"] == "16"
        assert f"127.0.0.1:{upstream}" in browser.evaluate("document.body.innerText")
        check_looks(browser, "gate")
        browser.open("about:blank")
    finally:
        gate.terminate()
        gate.wait()
        gate.stderr.close()
