"""What a run leaves to be looked at: events, report, live page, progress bar. SPDX-License-Identifier: Apache-2.0"""

import html.parser
import io
import random
import threading
import urllib.error
import urllib.request

import pytest

from thalweg.diffusion.report.events import FILE, Events, read
from thalweg.diffusion.report.page import Page
from thalweg.diffusion.report.plot import amount_written, axis_to, seconds_written
from thalweg.diffusion.report.progress import Progress
from thalweg.diffusion.report.report import html as html_of
from thalweg.diffusion.report.report import write
from thalweg.diffusion.report.run_stats import RunStats
from thalweg.diffusion.report.timeline import Timeline

TRACE = 'Traceback (most recent call last):\n  File "x.py", line 3, in <module>\nValueError: <script>alert(1)</script>'


def tell(events):
    """A small run: two workers of two slots, one of which goes; a failure that is repeated, one that is not."""
    events.run(began=1_700_000_000.0, policy="thalweg", cache_bytes=10**9)
    events.submitted(0, 5)
    events.joined(0, "a", 2)
    events.joined(2, "b", 2)
    events.done(2, "a", 1, 1, "stack", 2.0, 0.5, [("store", 1000), ("local", 3000)])
    events.done(4, "b", 2, 1, "stack", 2.0, 0.0, [("peer", 2000)])
    events.failed(5, "b", 3, 1, "stack", 1.0, 0.5, [("store", 500)], "ValueError: <b>", TRACE, False)
    events.left(6, "b", "killed")
    events.failed(8, "a", 3, 2, "stack", 1.0, 0.5, [], "ValueError: <b>", TRACE, True)
    events.fetch_failed(8, "a", "s3://x/<y>", "peer", "refused")
    events.ended(10)


@pytest.fixture
def run_folder(tmp_path):
    events = Events(tmp_path / "run")
    tell(events)
    events.close()
    return tmp_path / "run"


def stats_of(run_folder):
    stats = RunStats()
    for record in read(run_folder):
        stats.fold(record)
    return stats


def test_run_stats_add_up_what_happened(run_folder):
    stats = stats_of(run_folder)
    assert (stats.submitted, stats.done, stats.failed, stats.tried_again) == (5, 2, 1, 1)
    assert stats.bytes == {"local": 3000, "peer": 2000, "store": 1500}
    assert (stats.busy_s, stats.waiting_s, stats.end_s, stats.ended) == (6, 1.5, 10, True)
    stats.count_slots(10)
    stats.count_slots(10)
    assert stats.slots_s == 10 * 2 + 4 * 2, "two all the time, two from 2 to 6"
    assert [record["task"] for record in stats.slowest()] == [2, 1] and stats.rows() == ["a", "b"]
    assert sum(stats.timeline.rates("working", 10)) * 0.1 == pytest.approx(4.5)


def test_lines_that_were_cut_off_cost_themselves_only(run_folder):
    path = run_folder / FILE
    lines = path.read_bytes()
    path.write_bytes(lines[: lines.index(b'"fetch_failed"') + 3])
    events = Events(run_folder)
    events.run(began=1_700_000_100.0, policy="thalweg")
    events.submitted(0, 2)
    events.joined(0, "c", 1)
    events.done(1, "c", 4, 1, "stack", 1.0, 0.0, [])
    events.done(2, "c", 5, 1, "stack", 1.0, 0.0, [])
    events.ended(2)
    events.close()
    stats = stats_of(run_folder)
    assert (stats.submitted, stats.done, stats.failed) == (5, 4, 1)
    assert stats.end_s == 102, "it went on a hundred seconds after the beginning"


class Reader(html.parser.HTMLParser):
    """Sees that all that begins ends, and what there is."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.text = [], set(), ""

    def handle_starttag(self, tag, attributes):
        self.seen.add(tag)
        if tag not in {"meta", "br"}:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.seen.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def looked_at(text):
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    return reader


def test_a_report_is_one_file_that_needs_nothing_else(run_folder):
    path = write(run_folder)
    text = (run_folder / "report.html").read_text()
    assert path == str(run_folder / "report.html")
    reader = looked_at(text)
    assert "svg" in reader.seen and not reader.seen & {"script", "link", "img", "iframe"}
    assert "http://" not in text and "https://" not in text and "url(" not in text
    for expected in ("2of 5 tasks done", "this worker's copies", "stack", "ValueError: <b>", "<script>", "s3://x/<y>"):
        assert expected in reader.text
    assert "nan" not in text and "inf" not in text.replace("information", "")
    assert sorted(one.name for one in run_folder.iterdir()) == [FILE, "report.html"]


@pytest.mark.parametrize("end", [0, 1e-9, 0.04, 0.3, 7, 119, 121, 4000, 1e6])
def test_runs_of_any_length_can_be_drawn(end):
    stats = RunStats()
    looked_at(html_of(stats))
    listen = Events(None, [stats.fold])
    listen.run(began=0.0, policy="")
    listen.joined(0, "a", 1)
    listen.done(end, "a", "x", 1, "f", end, end / 2, [("store", 0), ("local", 10)])
    listen.ended(end)
    text = html_of(stats)
    looked_at(text)
    assert "nan" not in text


def test_a_timeline_loses_nothing_and_stays_small():
    dice = random.Random(1)
    timeline, total, end = Timeline(), 0.0, 0.0
    for number in range(3000):
        begin = dice.uniform(0, number)
        stop, amount = begin + dice.choice([0, dice.expovariate(1)]), dice.random()
        timeline.spread("x", begin, stop, amount)
        total, end = total + amount, max(end, stop)
        if number % 500 == 499:
            edges, rates = timeline.edges(end), timeline.rates("x", end)
            assert len(rates) == len(edges) - 1 <= 201 and edges[-1] == end
            assert sum(r * (b - a) for r, a, b in zip(rates, edges, edges[1:])) == pytest.approx(total)


def test_events_from_many_threads_are_whole_lines(tmp_path):
    events = Events(tmp_path)

    def write_some(name):
        for number in range(2000):
            events.done(number, name, number, 1, "f", 1.0, 0.1, [("local", 1)])

    threads = [threading.Thread(target=write_some, args=(f"w{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    events.close()
    assert stats_of(tmp_path).done == 8000 == len((tmp_path / FILE).read_text().splitlines())


def test_numbers_are_written_as_people_do():
    assert [amount_written(one) for one in (0, 950, 1500, 2e7, 3.14159e9, 5e12)] == [
        *("0", "950", "1.5 k", "20 M", "3.14 G", "5 T")
    ]
    assert [amount_written(999.9, unit) for unit in ("B", "/s")] == ["1 kB", "1 k/s"]
    assert [amount_written(20, unit) for unit in ("B/s", "/s")] == ["20 B/s", "20/s"]
    assert [seconds_written(one) for one in (0, 1e-5, 0.02, 1.5, 90, 750, 11100)] == [
        *("0 s", "< 1 ms", "20 ms", "1.5 s", "90 s", "12:30", "3:05:00")
    ]
    for most in (1e-7, 0.3, 1, 7, 10, 99, 1234, 5e9):
        axis = axis_to(most)
        assert most * 0.999 <= axis.most <= most * 2 and axis.most / axis.step <= 11
    assert axis_to(0) == axis_to(float("nan")) == (1, 1)


def asked(address, host=None):
    request = urllib.request.Request(address, headers={"Host": host} if host else {})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return answer.read().decode()


def test_the_live_page_shows_the_run_so_far_to_this_machine():
    page = Page()
    try:
        assert page.address.startswith("http://127.0.0.1:")
        assert "0of 0 tasks" in looked_at(asked(page.address)).text
        tell(Events(None, [page.listen]))
        text = asked(page.address)
        assert "2of 5 tasks" in looked_at(text).text and "refresh" not in text, "it has ended"
        for address, host, status in ((page.address, "evil.example", 403), (f"{page.address}x", None, 404)):
            with pytest.raises(urllib.error.HTTPError) as refused:
                asked(address, host)
            assert refused.value.code == status
            refused.value.close()
    finally:
        page.close()


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_progress_bar_says_how_far_and_how_long():
    now = [100.0]
    terminal = Terminal()
    progress = Progress(terminal, clock=lambda: now[0])
    events = Events(None, [progress.listen])
    events.run(began=0.0, policy="thalweg")
    events.submitted(0, 100)
    for number in range(50):
        now[0] += 0.5
        events.done(number, "a", number, 1, "f", 0.1, 0.0, [("local", 75), ("peer", 20), ("store", 5)])
    assert progress.line(now[0]).startswith(
        "█" * 12 + "░" * 12 + " 50/100  2/s  25 s left  75% local, 20% peer, 5% store"
    )
    events.failed(60, "a", 51, 1, "f", 0.1, 0.0, [], "E", "", True)
    assert "1 failed" in progress.line(now[0])
    progress.close()
    written = terminal.getvalue()
    assert written.endswith("\n") and written.count("\n") == 1 and written.count("\r") <= 53


def test_a_progress_bar_is_silent_in_a_pipe():
    stream = io.StringIO()
    progress = Progress(stream)
    tell(Events(None, [progress.listen]))
    progress.close()
    assert stream.getvalue() == ""
