"""Reports of a run: events, report, live page, progress bar. SPDX-License-Identifier: Apache-2.0"""

import html.parser
import http.client
import io
import json
import random
import re
import threading
import time
import urllib.error
import urllib.request
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

import numpy
import pytest

from thalweg.diffusion import File
from thalweg.diffusion.report.describe import describe_arguments
from thalweg.diffusion.report.events import FILE, Events, read
from thalweg.diffusion.report.failure_groups import normalised
from thalweg.diffusion.report.function_stats import Durations
from thalweg.diffusion.report.page import Page
from thalweg.diffusion.report.plot import axis_to
from thalweg.diffusion.report.progress import Progress
from thalweg.diffusion.report.report import html as html_of
from thalweg.diffusion.report.report import write
from thalweg.diffusion.report.run_stats import RunStats
from thalweg.diffusion.report.summary import in_words
from thalweg.diffusion.report.timeline import Timeline
from thalweg.diffusion.report.units import format_amount, format_seconds

TRACE = 'Traceback (most recent call last):\n  File "x.py", line 3, in <module>\nValueError: <script>alert(1)</script>'


def record_events(events):
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
    record_events(events)
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
    assert [call.task for call in stats.functions.slowest()] == ["1", "2"], "the first of two that took as long"
    assert [worker.name for worker in stats.workers()] == ["a", "b"]
    assert sum(stats.timeline.rates("working", 10)) * 0.1 == pytest.approx(4.5)


def second_start(run_folder):
    """Events of the run started again an hour later, with two more tasks and one worker."""
    events = Events(run_folder)
    events.run(began=1_700_003_608.0, policy="thalweg")
    events.submitted(0, 2)
    events.joined(0, "c", 1)
    return events


def test_pauses_between_starts_are_cut_out(run_folder):
    """Also where the last lines of a start were lost."""
    path = run_folder / FILE
    lines = path.read_bytes()
    path.write_bytes(lines[: lines.index(b'"fetch_failed"') + 3])
    events = second_start(run_folder)
    events.done(1, "c", 4, 1, "stack", 1.0, 0.0, [])
    events.done(2, "c", 5, 1, "stack", 1.0, 0.0, [])
    events.ended(2)
    events.close()
    stats = stats_of(run_folder)
    assert (stats.submitted, stats.done, stats.failed) == (5, 4, 1)
    assert stats.end_s == 8 + 2 and stats.starts == 2, "eight seconds, an hour's pause, two seconds"
    assert [(pause.at_s, pause.seconds, pause.is_start) for pause in stats.pauses] == [(8, 3600, True)]
    text = looked_at(html_of(stats)).text
    assert "started again" in text and "1 h" in text and "without pauses of 1 h" in text


def test_counts_of_several_starts_say_so_and_slots_are_no_more_than_there_are(run_folder):
    assert " starts" not in looked_at(html_of(stats_of(run_folder))).text
    events = second_start(run_folder)
    # Two of which a worker's clock has it that they ran at the same time.
    events.done(2, "c", 4, 1, "stack", 2.0, 0.0, [])
    events.done(2, "c", 5, 1, "stack", 2.0, 0.0, [])
    events.ended(2)
    events.close()
    stats = stats_of(run_folder)
    assert "4of 5 in 2 starts" in looked_at(html_of(stats)).text.replace("Tasks done", "")
    assert "2 starts" in in_words(stats)
    stats.count_slots(stats.end_s)
    there, computing = (max(stats.timeline.rates(name, stats.end_s)) for name in ("slots", "working"))
    written = re.search(r"slots computing .*?, (\S+) at most", looked_at(html_of(stats)).text)
    assert computing <= there or float(written[1]) <= there


def test_a_run_that_had_nothing_to_do_pauses():
    stats = RunStats()
    events = Events(None, [stats.fold])
    events.run(began=0.0, policy="")
    events.joined(0, "a", 1)
    for begin in (0, 50_000):
        events.submitted(begin, 1)
        events.done(begin + 10, "a", begin, 1, "f", 10.0, 0.0, [])
    events.ended(50_010)
    stats.count_slots(stats.end_s)
    assert stats.end_s == 20 and stats.slots_s == 20 and stats.busy_s == 20
    assert [(pause.at_s, pause.seconds, pause.is_start) for pause in stats.pauses] == [(10, 49_990, False)]


def test_queue_rate_and_remaining_time_are_those_of_now():
    stats = RunStats()
    events = Events(None, [stats.fold])
    events.run(began=0.0, policy="")
    events.joined(0, "a", 4)
    events.submitted(0, 100)
    assert (stats.queued, stats.running, stats.remaining_s()) == (100, None, None)
    for number in range(40):
        # Slow at first: ten in 100 s, thirty in 30 s.
        events.done(10 * number if number < 10 else 90 + number, "a", number, 1, "f", 1.0, 0.0, [])
    events.usage(129, "a", 2.0, 3.5, 10**9, 4, [{"task": 41, "name": "f", "seconds": 9, "arguments": "x"}])
    events.cancelled(129, 10)
    assert (stats.tasks_left, stats.running, stats.queued) == (50, 4, 46)
    assert stats.tasks_per_s() == pytest.approx(1, rel=0.8) and stats.remaining_s() == pytest.approx(50, rel=0.8)
    text = looked_at(html_of(stats)).text
    for expected in ("Queued46", "Running4on 4 slots", "Processors3.5 cores", "Memory1 GB", "Running now", "9 s"):
        assert expected in text
    events.done(130, "a", 41, 1, "f", 10.0, 0.0, [])
    assert "Running now" not in looked_at(html_of(stats)).text, "until the worker says more"


def test_functions_have_quantiles_and_their_slowest_calls():
    dice, stats = random.Random(3), RunStats()
    events = Events(None, [stats.fold])
    events.run(began=0.0, policy="")
    took = {"short": [dice.expovariate(100) for _ in range(3000)], "long": [dice.expovariate(1) for _ in range(3000)]}
    for name, values in took.items():
        for number, seconds in enumerate(values):
            events.done(number, "a", number, 1, name, seconds, seconds / 4, [], arguments=f"night-{number}")
    events.failed(9, "a", 9, 1, "short", 0.5, 0.0, [], "E: x", "", True)
    long, short = stats.functions.by_time()
    assert (long.name, short.name, short.failed) == ("long", "short", 1)
    for function in (long, short):
        exact = sorted(took[function.name])
        for share in (0.5, 0.95):
            assert function.durations.quantile(share) == pytest.approx(exact[int(share * 3000) - 1], rel=0.06)
        assert function.durations.longest_s == pytest.approx(exact[-1], abs=1e-6)
        slowest = function.slowest.sorted()
        assert slowest[0].arguments == f"night-{took[function.name].index(exact[-1])}" and len(slowest) == 5
    assert Durations().quantile(0.5) == 0
    text = looked_at(html_of(stats)).text
    assert long.slowest.sorted()[0].arguments in text and short.slowest.sorted()[0].arguments in text


def test_failures_of_one_kind_are_shown_once():
    stats = RunStats()
    events = Events(None, [stats.fold])
    for number in range(3000):
        error = (
            f"ValueError: row {number} of s3://b/{number}.fits is '{number}'" if number % 3 else "KeyError: 'exposure'"
        )
        spent = (number, "a", number, 1, "f" if number % 2 else "g", 1.0, 0.0, [])
        events.failed(*spent, error, f"Traceback of {number}", number % 2 == 0, arguments=f"night-{number}")
    groups = stats.failures.by_count()
    assert [(group.error[:8], group.count, group.final) for group in groups] == [
        *(("ValueErr", 2000, 1000), ("KeyError", 1000, 500))
    ]
    assert set(groups[0].names) == {"f", "g"} and len(groups[0].examples) == 5
    text = looked_at(html_of(stats)).text
    assert text.count("Traceback of") == 2 and "night-1" in text and "1,000 tasks failed" in text


def test_messages_that_differ_in_numbers_and_names_are_one_failure():
    same = [
        ("E: row 17 of /a/b.c", "E: row 4 of /d"),
        ("E: s3://x/1?v=2 took 3.5 s", "E: gs://y took 4 s"),
        ("E: at 0x7f00", "E: at 0xAB"),
        ("KeyError: 'night-5'", "KeyError: 'night-66'"),
        ("E: one\nmore 1", "E: one\nother"),
    ]
    for one, other in same:
        assert normalised(one) == normalised(other)
    different = [("KeyError: 'a'", "KeyError: 'b'"), ("TypeError: x", "ValueError: x"), ("E: and/or", "E: x/or")]
    for one, other in different:
        assert normalised(one) != normalised(other)


class Hostile:
    def __repr__(self):
        return "</script><script>alert(1)</script>\u202e" * 30_000


class Raising:
    def __repr__(self):
        raise RuntimeError("no")


class Slow:
    asked = 0

    def __repr__(self):
        Slow.asked += 1
        time.sleep(0.02)
        return "slow"


@dataclass
class Night:
    number: int
    frames: list


def test_arguments_are_described_in_few_words(tmp_path):
    cases = [
        ((File("s3://b/x", 10, 20), "fast", 1.5), "s3://b/x bytes 10–20, 'fast', 1.5"),
        (7, "7"),
        ((), ""),
        (([1, 2], {"a": b"x"}, {3}, None), "[1, 2], {'a': b'x'}, {3}, None"),
        ((Night(3, [1]),), "Night(number=3, frames=[1])"),
        ((numpy.zeros((1000, 3)), numpy.float64(2)), "ndarray 1000 × 3 float64, np.float64(2.0)"),
        ((list(range(100)),), "[0, 1, 2, 3, 4, 5, … 100 in all]"),
        ((OrderedDict(a=1), Path("/x"), len, Night), "OrderedDict of 1, /x, len, Night"),
        ((10**100_000, Raising(), object()), "int of 332193 bits, Raising, object"),
    ]
    for arguments, expected in cases:
        assert describe_arguments(arguments) == expected
    nested = []
    nested.append(nested)
    for arguments in ("x" * 10**6, [["y" * 10**6] * 100] * 100, Hostile(), nested, {Hostile(): [Hostile()] * 9}):
        assert len(describe_arguments((arguments,))) <= 200
    for _ in range(50):
        describe_arguments((Slow(),))
    assert Slow.asked == 1, "its class is not asked again"


def test_hostile_text_stays_text_and_bounded(tmp_path):
    bad = "</script></style><img src=x onerror=alert(1)>\u202eevil\u2066\x00\ud800" + "z" * 10**6
    events = Events(tmp_path)
    events.run(began=0.0, policy=bad)
    events.joined(0, bad, 1)
    events.submitted(0, 9)
    events.done(1, bad, bad, 1, bad, 1.0, 0.0, [("store", 1)], arguments=describe_arguments((bad, Hostile())))
    events.failed(2, bad, bad, 1, bad, 1.0, 0.0, [], bad, bad, True, arguments=bad[:200])
    events.fetch_failed(2, bad, bad, "store", bad)
    events.usage(2, bad, 1.0, 1.0, 5, 1, [{"task": bad, "name": bad, "seconds": 1, "arguments": bad}])
    events.left(3, bad, bad)
    events.close()
    text = Path(write(tmp_path)).read_text()
    reader = looked_at(text)
    assert not reader.seen & {"script", "img"} and len(text) < 200_000
    assert not set(text) & set("\u202e\u2066\x00") and r"\u202e" in text


def test_a_hundred_thousand_tasks_give_a_small_report(tmp_path):
    events = Events(tmp_path)
    events.run(began=0.0, policy="thalweg")
    events.submitted(0, 100_000)
    for number in range(300):
        events.joined(0, f"worker-{number}", 8)
    for number in range(100_000):
        spent = (number / 100, f"worker-{number % 300}", number, 1, f"f{number % 500}", 1.0, 0.1, [("local", 10)])
        if number % 10:
            events.done(*spent, arguments=f"night-{number}")
        else:
            events.failed(*spent, f"E{number}: {number}", "x" * 10_000, True, arguments=f"night-{number}")
    events.close()
    assert (tmp_path / FILE).stat().st_size < 60e6, "tracebacks of ten thousand kinds are not all written"
    begun = time.monotonic()
    path = Path(write(tmp_path))
    assert path.stat().st_size < 2e6
    assert time.monotonic() - begun < 120


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
    for expected in ("Tasks done2of 5", "this worker's copies", "stack", "ValueError: <b>", "<script>", "s3://x/<y>"):
        assert expected in reader.text
    assert "nan" not in text and "inf " not in text
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


def test_numbers_have_units():
    assert [format_amount(one) for one in (0, 950, 1500, 2e7, 3.14159e9, 5e12)] == [
        *("0", "950", "1.5 k", "20 M", "3.14 G", "5 T")
    ]
    assert [format_amount(999.9, unit) for unit in ("B", "/s")] == ["1 kB", "1 k/s"]
    assert [format_amount(20, unit) for unit in ("B/s", "/s")] == ["20 B/s", "20/s"]
    assert [format_seconds(one) for one in (0, 1e-5, 0.02, 1.5, 90, 750, 3600, 11100, 86399, 187200)] == [
        *("0 s", "< 1 ms", "20 ms", "1.5 s", "90 s", "12 min 30 s", "1 h", "3 h 5 min", "1 d", "2 d 4 h")
    ]
    for most in (1e-7, 0.3, 1, 7, 10, 99, 1234, 5e9):
        axis = axis_to(most)
        assert most * 0.999 <= axis.most <= most * 2 and axis.most / axis.step <= 11
    assert axis_to(0) == axis_to(float("nan")) == (1, 1)


def asked(address, host=None):
    request = urllib.request.Request(address, headers={"Host": host} if host else {})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return answer.read().decode()


@pytest.fixture
def page():
    page = Page()
    yield page
    page.close()


def test_the_live_page_shows_the_run_so_far(page):
    assert page.address.startswith("http://127.0.0.1:")
    assert "Tasks done0of 0" in looked_at(asked(page.address)).text
    record_events(Events(None, [page.listen]))
    text = asked(page.address)
    assert "Tasks done2of 5" in looked_at(text).text and 'http-equiv="refresh"' not in text


def test_the_live_page_gives_what_changed_and_says_when_the_run_has_ended(page):
    events = Events(None, [page.listen])
    events.run(began=time.time(), policy="thalweg")
    events.submitted(0, 2)
    events.joined(0, "a", 1)
    first = json.loads(asked(f"{page.address}state?since=0"))
    assert (
        "of 2" in first["parts"]["overview"] and not first["ended"] and set(first["parts"]) >= {"functions", "workers"}
    )
    events.done(1, "a", 1, 1, "f", 1.0, 0.0, [], arguments="night-1")
    second = json.loads(asked(f"{page.address}state?since={first['version']}"))
    assert second["version"] > first["version"] and "fetches" not in second["parts"], "that did not change"
    events.done(2, "a", 2, 1, "f", 1.0, 0.0, [])
    # A request meanwhile gets the end at once.
    answers = []
    asking = threading.Thread(target=lambda: answers.append(asked(f"{page.address}state?since=99")))
    asking.start()
    time.sleep(0.2)
    events.ended(3)
    asking.join(5)
    assert json.loads(answers[0])["ended"]


def test_the_live_page_is_for_browsers_of_this_machine_that_know_its_path(page):
    port = page.address.split(":")[2].split("/")[0]
    secret = page.address.rsplit("/", 2)[1]
    refused = [
        *((page.address, "evil.example", 403), (page.address, f"localhost.evil.example:{port}", 403)),
        *((f"{page.address}state?since=0", "evil.example", 403), (f"{page.address}x", None, 404)),
        *((f"http://127.0.0.1:{port}/", None, 404), (f"http://127.0.0.1:{port}/{secret[:-1]}x/", None, 404)),
        *((f"{page.address}state?since=-1", None, 400), (f"{page.address}state?since={'9' * 99}", None, 400)),
    ]
    for address, host, status in refused:
        with pytest.raises(urllib.error.HTTPError) as error:
            asked(address, host)
        assert error.value.code == status, address
        error.value.close()
    for host in (f"localhost:{port}", f"LOCALHOST:{port}", "127.0.0.1:8000", "[::1]:8000"):
        assert asked(page.address, host)
    for hosts in ([], ["localhost", "evil.example"]):
        connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=20)
        connection.putrequest("GET", f"/{secret}/", skip_host=True)
        for host in hosts:
            connection.putheader("Host", host)
        connection.endheaders()
        assert connection.getresponse().status == 403
        connection.close()


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
    record_events(Events(None, [progress.listen]))
    progress.close()
    assert stream.getvalue() == ""
