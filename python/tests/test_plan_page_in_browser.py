"""The page of `thalweg plan --html` as a browser shows it. SPDX-License-Identifier: Apache-2.0"""

import os
import subprocess

import pytest
from conftest import COMMAND
from test_page_in_browser import NARROW, WIDE, browser, lowest_contrast, quiet_console, smallest_letters  # noqa: F401

BAD = "<img src=x onerror=\"document.title='stolen'\">"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page's address; the data's name is one that nobody should run."""
    folder = tmp_path_factory.mktemp("plan")
    data = folder / BAD
    noise = os.urandom(300_000)
    data.write_bytes(noise + noise + b"a line of a log, and the next one\n" * 20_000)
    subprocess.run([COMMAND, "--quiet", "plan", data, "--html", folder / "plan.html"], check=True, capture_output=True)
    return f"file://{folder}/plan.html"


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_a_plan_can_be_read(browser, page, width, dark):
    browser.view(width, dark=dark)
    browser.open(page)
    assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it can be scrolled sideways"
    assert smallest_letters(browser) >= 12
    assert lowest_contrast(browser) >= 4.5
    assert browser.evaluate("document.title").endswith("· Thalweg")
    text = browser.evaluate("document.body.innerText")
    for expected in (BAD, "thalweg init STORE --chunker", "content 64 KiB", "equations (5) and (6)", "archival"):
        assert expected in text
    background = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") is not dark
    if folder := os.environ.get("THALWEG_SCREENSHOTS"):
        browser.screenshot(f"{folder}/plan-{width}-{'dark' if dark else 'light'}.png")


def test_figures_stay_within_their_frames_and_have_names(browser, page):
    browser.view(WIDE)
    browser.open(page)
    beyond = browser.evaluate(
        """[...document.querySelectorAll("svg")].flatMap((svg) => {
            const frame = svg.getBoundingClientRect();
            return [...svg.querySelectorAll("text, polyline, polygon, circle")].filter((one) => {
                const { left, right, top, bottom } = one.getBoundingClientRect();
                const isWithin = left >= frame.left && right <= frame.right && top >= frame.top && bottom <= frame.bottom;
                return !isWithin || [left, right].some(Number.isNaN);
            }).map((one) => one.outerHTML);
        })"""
    )
    assert beyond == []
    assert browser.evaluate("document.querySelectorAll('svg').length") == 4
    tree = browser.call("Accessibility.getFullAXTree")["nodes"]
    named = [one for one in tree if not one["ignored"] and one["role"]["value"] in ("image", "table")]
    assert len(named) == 11 and all(one["name"]["value"] for one in named)


def test_the_page_asks_for_nothing(browser, page):
    browser.open(page)
    assert browser.evaluate("performance.getEntriesByType('resource').map((one) => one.name)") == []
