"""The coordinator without anything around it: messages in, messages out. SPDX-License-Identifier: Apache-2.0"""

from thalweg.diffusion.coordinator import Coordinator
from thalweg.diffusion.failure import Failure
from thalweg.diffusion.messages import (
    Answered,
    Arrived,
    Drop,
    Ended,
    Failed,
    Fetch,
    Forget,
    Hello,
    Keep,
    Missed,
    NoWorker,
    Publish,
    Published,
    PublishedOutput,
    Recall,
    Result,
    Run,
    Task,
    Tasks,
    Writing,
)
from thalweg.diffusion.options import Options


class Play:
    """A coordinator, a clock that stands still, and workers with scripted messages."""

    def __init__(self, **options):
        self.coordinator = Coordinator(Options(**options))
        self.coordinator.keep(b"f", b"function")
        self.news = []

    def join(self, name, held=()):
        self.say(name, Hello(1, 10**9, f"{name}:1", list(held)))

    def say(self, name, *reports):
        self.coordinator.receive(0.0, name, reports, 0.0)

    def submit(self, *tasks, is_last=True):
        tasks = [Task(number, b"f", "f", b"", (), inputs, outputs) for number, inputs, outputs in tasks]
        self.coordinator.submit(0.0, Tasks(tasks, is_last))

    def orders(self, kind):
        """The orders of that kind sent to each worker since."""
        sent, news = self.coordinator.collect(0.0)
        self.news += [one for one in news if isinstance(one, (Result, Failed))]
        return [(name, order) for name, orders in sent.items() for order in orders if isinstance(order, kind)]


def ended(run, result=b"result", failure=None):
    return Ended(run.task, run.attempt, result, failure, 0.1, 0.1, 0.0, [], 0.0)


def test_tasks_without_any_worker_are_announced_once_after_some_seconds_and_when_they_go_on():
    play = Play()
    coordinator = play.coordinator

    def announced(now_s):
        return [one for one in coordinator.collect(now_s)[1] if isinstance(one, NoWorker)]

    assert announced(0.0) == [] and coordinator.next_wake_s() is None
    play.submit((0, (), ()), (1, (), ()))
    assert announced(1.0) == [] and coordinator.next_wake_s() == 6.0
    assert announced(6.0) == [NoWorker(2, 5.0)]
    assert announced(60.0) == [] and coordinator.next_wake_s() is None
    play.join("a")
    assert announced(61.0) == [NoWorker(0, 60.0)]
    coordinator.gone(70.0, "a")
    assert announced(70.0) == [] and announced(74.9) == []
    assert announced(75.0) == [NoWorker(2, 5.0)]


def test_a_task_waits_for_a_worker_and_its_function_goes_once():
    play = Play()
    play.submit((0, (), ()), (1, (), ()))
    assert play.orders(Run) == []
    play.join("a")
    orders = play.orders((Run, Keep))
    assert [type(order) for _, order in orders] == [Keep, Run, Run]
    play.say("a", *[ended(order) for _, order in orders[1:]])
    assert play.orders(Run) == [] and [one.number for one in play.news] == [0, 1]
    assert not play.coordinator._entries


def test_the_end_of_a_batch_does_not_overtake_its_beginning_when_the_first_worker_comes_between_them():
    play = Play()
    play.submit((0, ("in",), ()), (1, ("in",), ()), is_last=False)
    play.join("a")
    play.submit((2, ("in",), ()))
    while orders := play.orders((Run, Fetch)):
        for _, order in orders:
            if isinstance(order, Fetch):
                play.say("a", Arrived("in", None, 10, b"digest", 0.1, True))
            else:
                play.say("a", ended(order))
    assert [one.number for one in play.news] == [0, 1, 2] and not play.coordinator._entries


def test_a_batch_whose_last_task_is_cancelled_before_a_worker_comes_runs_all_the_same():
    play = Play()
    play.submit((0, ("in",), ()), (1, ("in",), ()), is_last=False)
    play.submit((2, ("in",), ()))
    play.coordinator.cancel(0.0, [2])
    play.join("a")
    assert [order.key for _, order in play.orders(Fetch)] == ["in"]


def test_only_the_newest_attempt_counts():
    play = Play()
    play.join("a")
    play.submit((0, (), ()))
    ((_, first),) = play.orders(Run)
    play.coordinator.gone(0.0, "a")
    play.join("b")
    ((_, second),) = play.orders(Run)
    assert (first.attempt, second.attempt) == (1, 2)
    # The one that was lost is back under its name, and ends.
    play.join("a")
    play.say("a", ended(first))
    assert play.orders(Drop) == [("a", Drop(0, 1))] and play.news == []
    play.say("b", ended(second))
    play.orders(Run)
    assert play.news == [Result(0, b"result", 2)]


def test_a_task_fails_when_it_has_failed_once_more_than_it_may():
    play = Play(retries=1)
    play.join("a")
    play.submit((0, (), ()))
    failure = Failure.of(ValueError("no"))
    for attempt in (1, 2):
        ((_, run),) = play.orders(Run)
        assert run.attempt == attempt
        play.say("a", ended(run, None, failure))
    assert play.orders(Run) == [] and play.news == [Failed(0, failure, 2)]


def test_a_task_that_kills_its_workers_fails_in_the_end():
    play = Play()
    play.submit((0, (), ()))
    for worker in range(100):
        play.join(str(worker))
        if not play.orders(Run):
            break
        play.coordinator.gone(0.0, str(worker))
    play.orders(Run)
    assert 2 < worker < 20 and "lost" in play.news[0].failure.line
    assert (
        f"f: workers were lost {worker} times" in play.news[0].failure.line and "timeout_s" in play.news[0].failure.line
    )


def test_a_folder_that_a_lost_worker_began_to_write_may_be_replaced_by_the_next():
    play = Play()
    play.join("a")
    play.submit((0, (), ("/out",)))
    ((_, first),) = play.orders(Run)
    play.say("a", ended(first))
    assert play.orders(Publish) == [("a", Publish(0, 1))] and first.replaced == ()
    play.say("a", Writing(0, 1, ["/out"]))
    play.coordinator.gone(0.0, "a")
    play.join("b")
    ((_, second),) = play.orders(Run)
    assert second.replaced == ("/out",)


def test_outputs_are_published_on_order_and_then_their_readers_run():
    play = Play()
    play.join("a")
    play.submit((0, (), ("/out",)), (1, ("/out",), ()))
    ((_, run),) = play.orders(Run)
    play.say("a", ended(run))
    assert play.orders((Run, Publish)) == [("a", Publish(0, 1))] and play.news == []
    # Its worker dies meanwhile: all over again.
    play.coordinator.gone(0.0, "a")
    play.join("b")
    ((_, again),) = play.orders(Run)
    play.say("b", ended(again))
    assert play.orders(Publish) == [("b", Publish(0, 2))]
    play.say("b", Published(0, 2, [PublishedOutput("/out", 5, b"d" * 16, True, "v")]))
    ((name, reader),) = play.orders(Run)
    assert (name, reader.inputs, reader.coming) == ("b", ("/out",), ())
    assert play.news == [Result(0, b"result", 2, [], [("/out", 5, "v")])]


def test_what_one_worker_has_the_next_gets_from_it_and_from_the_store_when_it_fails():
    play = Play(policy="mcu")
    play.join("a")
    play.submit((0, ("in",), ()))
    (orders,) = play.orders(Fetch)
    assert orders == ("a", Fetch("in", "", None, None))
    play.say("a", Arrived("in", None, 7, b"d" * 16, 0.1, True))
    play.join("b")
    play.submit((1, ("in",), ()), (2, ("in",), ()))
    assert play.orders(Fetch) == [("b", Fetch("in", "a:1", b"d" * 16, None))]
    play.say("b", Missed("in", None, "a:1", "it is gone"))
    assert ("b", Fetch("in", "", b"d" * 16, None)) in play.orders(Fetch)


def test_a_worker_that_comes_back_gets_what_its_cache_still_holds():
    play = Play()
    play.join("a")
    play.join("b", [("in", 7, b"d" * 16)])
    play.submit((0, ("in",), ()))
    ((name, run),) = play.orders(Run)
    assert (name, run.coming) == ("b", ())


def test_cancelled_tasks_do_not_run_and_those_that_run_end_without_a_result():
    play = Play()
    play.join("a")
    play.submit(*[(number, (), (f"/{number}",)) for number in range(20)], (20, ("/3",), ()))
    begun = {run.task: run for _, run in play.orders(Run)}
    assert 0 < len(begun) < 19
    play.coordinator.cancel(0.0, range(20))
    play.say("a", *[ended(run) for run in begun.values()])
    assert play.orders((Run, Publish)) == []
    assert [one.number for one in play.news] == [20] and "cancelled" in play.news[0].failure.line
    assert not play.coordinator._entries
    play.submit((21, (), ()))
    assert len(play.orders(Run)) == 1


def test_cancelled_tasks_that_a_worker_has_not_begun_are_given_back():
    play = Play()
    play.join("a")
    play.submit(*[(number, (), ()) for number in range(20)])
    running, *others = [run for _, run in play.orders(Run)]
    play.coordinator.cancel(0.0, range(20))
    recalled = [order for _, order in play.orders(Recall)]
    assert [order.task for order in recalled] == [run.task for run in (running, *others)] and others
    play.say("a", *[Answered(order.task, order.attempt, order.task != running.task) for order in recalled])
    assert play.orders((Run, Recall)) == [] and [*play.coordinator._entries] == [running.task]
    play.submit((20, (), ()))
    assert len(play.orders(Run)) == 1, "there is room for others"
    play.say("a", ended(running))
    assert play.orders(Run) == [] and play.news == [] and len(play.coordinator._entries) == 1


def test_values_go_once_to_each_worker_and_again_when_they_were_forgotten():
    play = Play()
    play.join("a")
    play.coordinator.keep(b"v", b"value")
    task = Task(0, b"f", "f", b"", (b"v",), (), ())
    play.coordinator.submit(0.0, Tasks([task, task._replace(number=1)], True))
    orders = [order for _, order in play.orders((Keep, Run))]
    assert orders[:2] == [Keep(b"f", b"function"), Keep(b"v", b"value")] and len(orders) == 4
    play.say("a", *[ended(run) for run in orders[2:]])
    play.coordinator.forget([b"v"])
    assert play.orders(Forget) == [("a", Forget([b"v"]))]
    play.coordinator.keep(b"v", b"value")
    play.coordinator.submit(0.0, Tasks([task._replace(number=2)], True))
    assert play.orders(Keep) == [("a", Keep(b"v", b"value"))]
