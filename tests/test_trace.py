"""What is recorded is exact, what is kept is bounded, what it costs is known."""

from __future__ import annotations

import json
import sys
import threading
import tracemalloc
from statistics import median

import pytest

from hotloop.core.clock import FakeClock, now_ns
from hotloop.core.errors import UserError
from hotloop.trace import NULL_TRACE, SectionTotal, Trace, section_cost_ns


def in_thread(work, name="other"):
    thread = threading.Thread(target=work, name=name)
    thread.start()
    thread.join()


def record(trace, section, clock, *durations):
    for ns in durations:
        with section:
            clock.advance(ns)


@pytest.fixture
def clock():
    return FakeClock()


def test_totals_are_exact_though_the_ring_is_small(clock):
    trace = Trace(events_per_track=4, clock=clock)
    trace.track("learner")
    learn = trace.section("learn")
    record(trace, learn, clock, *range(1, 101))
    assert trace.totals() == [SectionTotal("learner", "learn", 100, 5050, 1, 100)]
    assert [e.ns for e in trace.events()] == [97, 98, 99, 100]  # the newest
    assert trace.dropped() == {"learner": 96}


def test_sections_nest_in_others_and_in_themselves(clock):
    trace = Trace(clock=clock)
    trace.track("t")
    outer, inner = trace.section("outer"), trace.section("inner")
    with outer:
        clock.advance(1)
        with inner:
            clock.advance(10)
            with outer:
                clock.advance(100)
        clock.advance(1000)
    assert trace.totals() == [
        SectionTotal("t", "outer", 2, 1211, 100, 1111),
        SectionTotal("t", "inner", 1, 110, 110, 110),
    ]
    assert [(e.name, e.start_ns) for e in trace.events()] == [("outer", 0), ("inner", 1), ("outer", 11)]


def test_an_exception_passes_and_its_section_is_recorded(clock):
    trace = Trace(clock=clock)
    section = trace.section("s")
    with pytest.raises(ZeroDivisionError), section:
        clock.advance(5)
        raise ZeroDivisionError
    with section:  # nothing was left open
        clock.advance(7)
    assert trace.totals()[0][2:] == (2, 12, 5, 7)


def test_a_section_made_twice_is_one(clock):
    trace = Trace(clock=clock)
    assert trace.section("a") is trace.section("a")
    assert trace.section("a") is not trace.section("b")


def test_threads_record_at_once_without_losing_any():
    trace = Trace(events_per_track=256)
    section, passes = trace.section("work"), 20_000
    started = threading.Barrier(4)

    def work(name):
        trace.track(name)
        started.wait()
        for _ in range(passes):
            with section:
                trace.count("steps", 2)

    threads = [threading.Thread(target=work, args=(f"worker {i}",)) for i in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # many more switches than usual
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert sorted((t.track, t.calls) for t in trace.totals()) == [(f"worker {i}", passes) for i in range(4)]
    assert trace.counts() == {"steps": 4 * 2 * passes}


def test_sections_of_two_threads_may_overlap(clock):
    trace = Trace(clock=clock)
    section, entered, left = trace.section("s"), threading.Event(), threading.Event()

    def other():
        with section:
            entered.set()
            left.wait()

    trace.track("t")
    thread = threading.Thread(target=other, name="other")
    with section:
        clock.advance(1)
        thread.start()
        entered.wait()
        clock.advance(10)
    left.set()  # the other one, entered last, is left last
    thread.join()
    assert [(t.track, t.total_ns) for t in trace.totals()] == [("t", 11), ("other", 10)]


def test_names_of_tracks(clock):
    trace = Trace(clock=clock)
    section = trace.section("s")

    def named(name):
        def work():
            if name:
                trace.track(name)
            with section:
                clock.advance(1)

        return work

    trace.track("learner")
    named(None)()  # keeps the name it has
    in_thread(named(None), "Thread-x")  # takes the thread's
    in_thread(named("learner"))  # in use by a living thread
    in_thread(named("collector"))
    in_thread(named("collector"))  # a respawned worker goes on with the track of the one before
    assert [(t.track, t.calls) for t in trace.totals()] == [
        ("learner", 1),
        ("Thread-x", 1),
        ("learner 2", 1),
        ("collector", 2),
    ]
    trace.track("main")
    assert [t.name for t in trace.tracks] == ["main", "Thread-x", "learner 2", "collector"]


def test_counters_and_gauges(clock):
    trace = Trace(clock=clock)
    trace.count("env steps", 2**60)
    trace.count("env steps")
    trace.gauge("size", 0.5)
    clock.advance(1)
    in_thread(lambda: (trace.count("env steps", 3), trace.gauge("size", 0.75), trace.gauge("env steps", 1.0)))
    assert trace.counts() == {"env steps": 2**60 + 4}  # ints stay exact
    assert trace.gauges() == {"size": 0.75, "env steps": 1.0}


def test_chrome_file(clock, tmp_path):
    clock.advance(5_000_000)
    trace = Trace(events_per_track=8, clock=clock)
    trace.track('learner "ü"')
    section = trace.section("learn\n")
    record(trace, section, clock, *[1500] * 10)
    in_thread(lambda: trace.count("steps", 7), "collector")
    for _ in range(5):
        clock.advance(1000)
        trace.count("steps", 1)  # only the last 2 are still held, the sum knows of all
    trace.gauge("lost", float("nan"))
    trace.write_chrome(tmp_path / "trace.json")

    def no_constants(text):
        raise AssertionError(f"{text} is not JSON")

    written = json.loads((tmp_path / "trace.json").read_text("utf-8"), parse_constant=no_constants)
    assert [p.name for p in tmp_path.iterdir()] == ["trace.json"]
    events = written["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    assert [(e["ts"], e["dur"]) for e in spans] == [(1.5 * i, 1.5) for i in range(2, 10)]
    assert {e["name"] for e in spans} == {"learn\n"}
    threads = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert threads == {1: 'learner "ü"', 2: "collector"}
    assert {e["tid"] for e in spans} == {1}
    assert [(e["ts"], e["args"]["value"]) for e in events if e["ph"] == "C"] == [(15.0, 11), (20.0, 12)]
    assert written["otherData"]["dropped_events"] == {'learner "ü"': 2, "collector": 0}


def test_an_empty_trace_is_a_file_too(tmp_path):
    Trace().write_chrome(tmp_path / "t.json")
    assert [e["ph"] for e in json.loads((tmp_path / "t.json").read_text())["traceEvents"]] == ["M"]


def test_a_trace_that_cannot_be_written_is_one_line(tmp_path):
    with pytest.raises(UserError, match="cannot write the trace") as error:
        Trace().write_chrome(tmp_path / "nowhere" / "t.json")
    assert "\n" not in str(error.value)


def test_memory_is_fixed():
    trace = Trace(events_per_track=512)
    section = trace.section("s")

    def work(passes):
        for i in range(passes):
            with section:
                trace.count("n")
                trace.gauge("g", i)

    work(1000)  # both rings have wrapped
    tracemalloc.start()
    work(1000)
    before = tracemalloc.get_traced_memory()[0]
    work(10_000)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 512


def test_the_null_trace_takes_it_all(tmp_path):
    trace = NULL_TRACE
    trace.track("t")
    with trace.section("a"), trace.section("b"):
        trace.count("n", 2)
        trace.gauge("g", 1.0)
    trace.write_chrome(tmp_path / "t.json")
    assert not any((trace.totals(), trace.counts(), trace.gauges(), list(trace.events()), trace.dropped()))
    assert not list(tmp_path.iterdir())


def test_too_many_names_is_said(clock):
    trace = Trace(clock=clock)
    trace.series = [("counter", str(i)) for i in range(0x10000)]
    with pytest.raises(ValueError, match="outside the loop"):
        trace.count("one more")


def test_cost_is_at_most_one_percent_at_ten_thousand_sections_a_second():
    """The limit is on the processor time of one section times their number, which a busy machine cannot blur. A loop
    of 50 µs units, paired with the same loop in sections, is printed beside it."""
    cost = section_cost_ns()
    print(f"\none section costs {cost:.0f} ns; 10,000 a second take {cost * 10_000 / 1e9:.2%} of a core")
    assert cost * 10_000 <= 0.01 * 1e9

    section = Trace().section("unit")
    numbers = range(2400)  # some 50 µs to sum
    ratios, units = [], []
    for _ in range(15):  # interleaved, so that a slow second of the machine meets both
        t0 = now_ns()
        for _ in range(100):
            sum(n for n in numbers)
        t1 = now_ns()
        for _ in range(100):
            with section:
                sum(n for n in numbers)
        ratios.append((now_ns() - t1) / (t1 - t0) - 1)
        units.append((t1 - t0) / 1e5)
    print(f"units of {median(units):.0f} µs run {median(ratios):+.2%} longer in sections")
    assert cost <= 0.02 * 50_000
