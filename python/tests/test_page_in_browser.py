"""The report and the live page as a browser shows them. SPDX-License-Identifier: Apache-2.0"""

import os
import subprocess
import sys
import time

import pytest
from browser import Browser, find
from test_report import Hostile

from thalweg.diffusion.report.describe import describe_arguments
from thalweg.diffusion.report.events import Events
from thalweg.diffusion.report.page import Page
from thalweg.diffusion.report.report import write

NARROW, WIDE = 360, 1280
TRACE = "Traceback (most recent call last):\n" + "".join(f'  File "sky.py", line {number}\n' for number in range(60))
BAD = "</script><script>document.title='stolen'</script><img src=x onerror=\"document.title='stolen'\">"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if find() is None and os.environ.get("THALWEG_SKIP_INSTALL") == "1":
        pytest.skip("no browser is here")
    assert find(), "a browser is needed: $THALWEG_BROWSER, or `./install test` as root"
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


@pytest.fixture(autouse=True)
def quiet_console(request):
    yield
    if "browser" in request.fixturenames:
        console = request.getfixturevalue("browser").console
        said, console[:] = list(console), []
        assert said == []


def begin(events, workers=3):
    events.run(began=1_700_000_000.0, policy="thalweg", cache_bytes=10**9)
    events.submitted(0, 1000)
    for number in range(workers):
        events.joined(0, f"tcp://192.168.100.{number}:40331", 4)


def go_on(events, first, last, workers=3):
    """Tasks of several functions, some of which fail; arguments of all lengths."""
    for number in range(first, last):
        worker = f"tcp://192.168.100.{number % workers}:40331"
        name = ("sky.stack", "analysis.a_package.with_a_long_name.function_of_some_kind", "convert 0 --to={1}")[
            number % 3
        ]
        spent = (number / 10, worker, number, 1, name, 0.1 + number % 7, 0.1, [("local", 10**6), ("store", 10**6)])
        if number % 25 == 7:
            error = f"ValueError: row {number} of s3://bucket/{'long' * 20}/night-{number}.fits is empty"
            events.failed(
                *spent, error, TRACE, number >= 100, arguments=f"s3://bucket/night-{number}.fits, {'x' * 150}"
            )
        elif number % 25 == 8 and number < 300:
            events.failed(*spent, BAD, BAD * 10, True, arguments=describe_arguments((BAD, Hostile())))
        else:
            events.done(*spent, arguments=f"s3://bucket/2024/observations/night-{number}.fits, mode='fast'")
        if number % 5 == 0:
            longest = [{"task": number, "name": name, "seconds": 5.0, "arguments": f"'running-{number}'"}]
            events.usage(number / 10, worker, 0.5, number % 4, (1 + number % 3) * 10**9, 2, longest)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    for _ in range(2):
        events = Events(folder)
        begin(events)
        go_on(events, 0, 300)
        events.fetch_failed(1, "a", f"s3://bucket/{'long' * 30}", "peer", f"ConnectionError: {'x' * 200}")
        events.ended(30)
        events.close()
    return "file://" + write(folder)


def overflowing(browser):
    """Elements that reach over the right edge, and whether the page can be scrolled that way."""
    return browser.evaluate(
        """(document.documentElement.scrollWidth > innerWidth ? ["the page"] : []).concat(
            [...document.querySelectorAll("body *")]
                .filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest("pre, thead"))
                .map((one) => `${one.tagName} ${one.textContent.slice(0, 60)}`))"""
    )


def smallest_letters(browser):
    """In CSS pixels, as they are on the screen."""
    return browser.evaluate(
        """Math.min(...[...document.querySelectorAll("body *")]
            .filter((one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.nodeValue.trim()))
            .filter((one) => !one.closest("script, style"))
            .map((one) => {
                const scale = one.getScreenCTM ? Math.min(Math.abs(one.getScreenCTM().a), 1) : 1;
                return parseFloat(getComputedStyle(one).fontSize) * scale;
            }))"""
    )


def lowest_contrast(browser):
    """Of text to the page, WCAG's ratio."""
    return browser.evaluate(
        """(() => {
            const light = (colour) => {
                const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map((one) => one / 255)
                    .map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
                return 0.2126 * r + 0.7152 * g + 0.0722 * b;
            };
            const paper = light(getComputedStyle(document.body).backgroundColor);
            return Math.min(...[...document.querySelectorAll("p, th, td, dt, dd, span, summary, pre, caption")].map((one) => {
                const ink = light(getComputedStyle(one).color);
                return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
            }));
        })()"""
    )


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_the_report_can_be_read(browser, report, width, dark):
    browser.view(width, dark=dark)
    browser.open(report)
    browser.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    assert browser.evaluate("innerWidth") == width
    assert overflowing(browser) == []
    assert smallest_letters(browser) >= 12
    assert lowest_contrast(browser) >= 4.5
    text = browser.evaluate("document.body.innerText")
    for expected in ("Failures by kind", "sky.stack", "night-6.fits", "p95", "started again", "ConnectionError", BAD):
        assert expected in text
    assert browser.evaluate("document.title") == "46% · Thalweg run", "592 of 296 and 1,000"
    background = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") is not dark
    assert browser.evaluate("document.querySelectorAll('svg [d], svg[role=img]').length") > 20
    if folder := os.environ.get("THALWEG_SCREENSHOTS"):
        browser.screenshot(f"{folder}/report-{width}-{'dark' if dark else 'light'}.png")


def test_tables_are_tables_for_those_who_hear_them(browser, report):
    for width in (NARROW, WIDE):
        browser.view(width)
        browser.open(report)
        tree = browser.call("Accessibility.getFullAXTree")["nodes"]
        roles = [one["role"]["value"] for one in tree if not one["ignored"]]
        assert roles.count("table") >= 6 and roles.count("columnheader") > 20 and roles.count("rowheader") > 20
        unnamed = [one for one in tree if one["role"]["value"] in ("image", "table") and not one["name"]["value"]]
        assert unnamed == []


@pytest.fixture
def page():
    page = Page()
    yield page
    page.close()


def test_a_live_page_changes_without_closing_what_is_open(browser, page):
    events = Events(None, [page.listen])
    begin(events)
    go_on(events, 0, 100)
    browser.view(NARROW)
    browser.open(page.address)
    browser.wait_for("document.getElementById('status').textContent.startsWith('Live')")
    browser.evaluate(
        """window.same = "still this page";
        window.opened = document.querySelectorAll("#failures details")[1];
        opened.open = true;
        opened.querySelector("pre").scrollTop = 40;
        window.selected = document.querySelector("#functions tbody th");
        getSelection().selectAllChildren(selected);
        document.getElementById("inputs").scrollIntoView();"""
    )
    browser.wait_for("scrollY > 500")
    seen = browser.evaluate("document.querySelector('#inputs h2').getBoundingClientRect().top")
    go_on(events, 100, 600)
    browser.wait_for("document.getElementById('overview').innerText.includes('564')")
    assert "20 tasks failed" in browser.evaluate("document.getElementById('failures').innerText")
    assert browser.evaluate("same") == "still this page"
    assert browser.evaluate("opened.isConnected && opened.open && opened.querySelector('pre').scrollTop") == 40
    assert browser.evaluate("opened === document.querySelector('#failures details[open]')")
    assert browser.evaluate("opened === document.querySelector('#failures details')"), "it is the most frequent now"
    assert browser.evaluate("getSelection().toString()") == browser.evaluate("selected.textContent")
    assert abs(browser.evaluate("document.querySelector('#inputs h2').getBoundingClientRect().top") - seen) < 60
    assert overflowing(browser) == [] and smallest_letters(browser) >= 12
    if folder := os.environ.get("THALWEG_SCREENSHOTS"):
        browser.screenshot(f"{folder}/live-{NARROW}.png")
    events.ended(70)
    browser.wait_for("document.getElementById('status').textContent.startsWith('The run has ended')")
    assert browser.evaluate("opened.open && document.title") == "60% · Thalweg run"


def test_a_reload_opens_what_was_open_and_writes_nothing_to_the_notebook(browser, page, capfd):
    events = Events(None, [page.listen])
    begin(events)
    go_on(events, 0, 100)
    browser.view(NARROW)
    browser.open(page.address)
    browser.wait_for("document.getElementById('status').textContent.startsWith('Live')")
    browser.evaluate(
        """window.before = true;
        document.querySelectorAll("#failures details")[1].open = true;
        document.getElementById("inputs").scrollIntoView();"""
    )
    for _ in range(3):
        place = browser.evaluate("document.querySelector('#inputs h2').getBoundingClientRect().top")
        browser.call("Page.reload")
        browser.wait_for("!window.before && document.getElementById('status')?.textContent.startsWith('Live')")
        assert browser.evaluate("[...document.querySelectorAll('#failures details')].map((one) => one.open)") == [
            False,
            True,
        ]
        browser.wait_for(f"Math.abs(document.querySelector('#inputs h2').getBoundingClientRect().top - {place}) < 60")
        browser.evaluate("window.before = true")
        go_on(events, 100, 101)
    browser.open("about:blank")
    go_on(events, 101, 200)
    time.sleep(1.5)
    assert capfd.readouterr().err == ""


SERVE = """
import sys, time
from thalweg.diffusion.report.events import Events
from thalweg.diffusion.report.page import Page
page = Page()
events = Events(None, [page.listen])
events.run(began=time.time(), policy="thalweg")
events.submitted(0, 3)
print(page.address, flush=True)
time.sleep(600)
"""


def test_a_live_page_says_when_the_process_is_gone(browser):
    process = subprocess.Popen([sys.executable, "-c", SERVE], stdout=subprocess.PIPE, text=True)
    try:
        browser.view(NARROW)
        browser.open(process.stdout.readline().strip())
        browser.wait_for("document.getElementById('status').textContent.startsWith('Live')")
        assert "of 3" in browser.evaluate("document.body.innerText")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    browser.wait_for("document.getElementById('status').textContent.includes('has not answered since')")
    assert browser.evaluate("document.getElementById('status').className").split() == ["faint", "bad"]
    assert "of 3" in browser.evaluate("document.body.innerText"), "its last state stays"
    browser.open("about:blank")
    # The browser itself notes each request that found no server.
    assert all("ERR_" in one for one in browser.console)
    browser.console.clear()


def test_a_browser_that_asks_while_the_run_is_closed_sees_its_end(browser):
    page = Page()
    events = Events(None, [page.listen])
    begin(events)
    browser.view(WIDE)
    browser.open(page.address)
    browser.wait_for("document.getElementById('status').textContent.startsWith('Live')")
    time.sleep(1.5)
    page.close()
    browser.wait_for("document.getElementById('status').textContent.startsWith('The run has ended')")
