"""`resprout bench`: real processes, tiny numbers. What it measures is not judged here, only that it measures."""

import asyncio
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

import pytest

from resprout.cli.load.stream import (
    CrowdCheck,
    CrowdSource,
    PacedCheck,
    StreamCheck,
    StreamSource,
    paced_number,
    probe,
    ring_of,
    stamped,
)
from resprout.cli.load.team import LoadError, LoadProcess
from resprout.cli.load.worker import Flood, LoadReady, Sent
from tests.cli.processes import complaint, eventually_gone, resprout, running
from tests.patience import PATIENCE_S

# -- the command -------------------------------------------------------------------------------------------------------


def test_figures_as_one_json_object() -> None:
    done = resprout("bench", "--messages", "300", "--size", "64", "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    figures = json.loads(done.stdout)
    assert (figures["brokers"], figures["subscribers"], figures["size"]) == (1, 1, 64)
    assert figures["messages"] == 300
    assert figures["messages_per_s"] == pytest.approx(300 / figures["seconds"])
    assert figures["deliveries_per_s"] == pytest.approx(figures["messages_per_s"])
    assert len(figures["cpu_us_per_message"]["brokers"]) == 1
    latency = figures["latency"]
    assert latency["count"] == 300
    assert 0 < latency["median_us"] <= latency["p95_us"] <= latency["p99_us"] <= latency["max_us"]


def test_a_chain_with_several_subscribers_for_a_limited_time() -> None:
    words = ("--brokers", "2", "--subscribers", "2", "--seconds", "0.05", "--guarantee", "eventual", "--json")
    done = resprout("bench", *words)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["guarantee"] == "eventual"
    assert figures["messages"] > 0
    assert figures["deliveries_per_s"] == pytest.approx(2 * figures["messages_per_s"])
    assert len(figures["cpu_us_per_message"]["brokers"]) == 2
    assert figures["latency"]["count"] == 2 * 2_000


def test_figures_as_a_table() -> None:
    done = resprout("bench", "--messages", "50")
    text = done.stdout.decode()
    assert done.returncode == 0, done.stderr
    for word in ("50 messages", "published", "publisher", "broker b0", "subscriber", "median", "longest"):
        assert word in text


@pytest.mark.skipif(shutil.which("pgrep") is None, reason="nothing here tells the children of a process")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_when_it_is_stopped(number: signal.Signals) -> None:
    with running("bench", "--seconds", "60", "--json") as process:
        children = _children(process.pid, 3)
        assert process.end(number) == 130
        assert process.rest() == (b"", b"")
    assert all(eventually_gone(pid) for pid in children)


def _children(pid: int, count: int) -> list[int]:
    """So many child processes, as soon as there are as many."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        found = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, check=False
        ).stdout.split()
        if len(found) >= count:
            return [int(each) for each in found]
        time.sleep(0.05)
    raise AssertionError(f"{count} processes were not started in time")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--brokers", "0"), "--brokers"),
        (("--subscribers", "many"), "'many'"),
        (("--size", "8"), "--size"),
        (("--size", "9999999"), "--size"),
        (("--seconds", "0"), "--seconds"),
        (("--messages", "5", "--seconds", "1"), "choose one"),
        (("--guarantee", "causl"), "unknown guarantee 'causl'"),
        (("--sise", "32"), "--sise"),
    ],
)
def test_bad_options_are_refused(words: tuple[str, ...], reason: str) -> None:
    assert reason in complaint("bench", *words)


# -- the proof that everything came ------------------------------------------------------------------------------------


def _stream(count: int, size: int = 32) -> list[bytes]:
    return [payload for block in StreamSource(size, count).blocks() for payload in block]


def _check(payloads: Sequence[bytes], size: int = 32) -> StreamCheck:
    check = StreamCheck(size)
    ends = [check.take(payload) for payload in payloads]
    assert ends.index(True) == len(ends) - 1, "only the last payload may be the end"
    return check


@pytest.mark.parametrize("count", [1, 2, 257, 40_000])
def test_a_stream_that_came_whole_is_accepted(count: int) -> None:
    stream = _stream(count)
    assert len(stream) == count
    check = _check(stream)
    assert (check.failure, check.count) == (None, count)


def test_large_payloads_take_a_short_ring_round_and_round() -> None:
    size = 1 << 20
    assert len(ring_of(size)) < 20
    check = _check(_stream(50, size), size)
    assert (check.failure, check.count) == (None, 50)


def test_probes_in_between_count_for_nothing() -> None:
    stream = _stream(10)
    check = _check([*stream[:4], probe(32), *stream[4:]])
    assert (check.failure, check.count) == (None, 10)


def test_a_lost_message_is_noticed() -> None:
    stream = _stream(10)
    del stream[4]
    assert (_check(stream[:5]).failure or "").startswith("message 4 was due")


def test_a_message_that_came_twice_is_noticed() -> None:
    stream = _stream(10)
    assert (_check([*stream[:5], stream[4]]).failure or "").startswith("message 5 was due")


def test_messages_out_of_order_are_noticed() -> None:
    stream = _stream(10)
    assert _check([stream[0], stream[2]]).failure is not None


def test_a_stream_that_lost_a_whole_turn_of_the_ring_is_noticed() -> None:
    ring = ring_of(32)
    stream = _stream(3 * len(ring))
    del stream[len(ring) : 2 * len(ring)]
    assert "the end of a stream" in (_check(stream).failure or "")


def test_a_spoilt_payload_is_noticed() -> None:
    stream = _stream(10)
    assert _check([*stream[:3], stream[3][:-1] + b"x"]).failure is not None


def test_a_paced_stream_knows_how_long_each_message_took() -> None:
    check = PacedCheck()
    payloads = [stamped(paced_number(number, 3), 16) for number in range(3)]
    assert [check.take(payload) for payload in payloads] == [False, False, True]
    assert check.failure is None
    assert len(check.latencies_us) == 3
    assert min(check.latencies_us) >= 0


def test_a_gap_in_a_paced_stream_is_noticed() -> None:
    check = PacedCheck()
    assert not check.take(stamped(0, 16))
    assert check.take(stamped(2, 16))
    assert check.failure == "message 1 was due, message 2 came"


# -- many publishers ---------------------------------------------------------------------------------------------------


def _crowd(publishers: int, count: int, per_turn: int = 2) -> list[list[bytes]]:
    """The stream of each."""
    sources = [CrowdSource(number, 32, count, per_turn) for number in range(publishers)]
    return [[payload for block in source.blocks() for payload in block] for source in sources]


def test_streams_of_many_publishers_are_accepted_however_they_mix() -> None:
    streams = _crowd(3, 5)
    mixed = [payload for row in zip(*streams, strict=True) for payload in row]
    check = CrowdCheck(3)
    assert [check.take(payload) for payload in [probe(32), *mixed]] == [False] * 15 + [True]
    assert (check.failure, check.count) == (None, 15)


def test_one_publisher_may_end_before_the_others_begin() -> None:
    check = CrowdCheck(2)
    first, second = _crowd(2, 1)
    assert [check.take(payload) for payload in (*first, *second)] == [False, True]
    assert (check.failure, check.count) == (None, 2)


@pytest.mark.parametrize("order", [(0, 2), (0, 1, 1), (1,), (0, 1, 2, 4)])
def test_what_is_lost_doubled_or_out_of_order_in_one_of_many_streams_is_noticed(order: tuple[int, ...]) -> None:
    stream = _crowd(2, 5)[1]
    check = CrowdCheck(2)
    assert [check.take(stream[place]) for place in order][-1]
    assert (check.failure or "").startswith("publisher 1: message ")


def test_a_publisher_that_nobody_expects_is_noticed() -> None:
    check = CrowdCheck(1)
    assert check.take(_crowd(2, 5)[1][0])
    assert check.failure is not None


def test_each_turn_of_a_crowd_has_as_many_messages_as_were_asked_for() -> None:
    assert [len(block) for block in CrowdSource(0, 32, 8, 3).blocks()] == [3, 3, 1, 1]
    assert [len(block) for block in StreamSource(32, 8, per_turn=3).blocks()] == [3, 3, 1, 1]


# -- workers that do not do what they should ---------------------------------------------------------------------------


async def _lead(program: str) -> None:
    worker = LoadProcess("the worker", [sys.executable, "-c", program])
    try:
        await worker.start()
        await worker.ask(Flood(32, 1), Sent, PATIENCE_S)
    finally:
        await worker.stop()


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("", "the worker ended before it had answered"),
        ("print('hello')", "which is no answer"),
        ('print(\'{"type": "Failed", "reason": "no broker"}\')', "the worker: no broker"),
        ('print(\'{"type": "Sent", "count": 1, "begin_ns": 1, "end_ns": 1, "cpu_s": 1}\')', "where LoadReady was due"),
        ('print(\'{"type": "LoadReady"}\', flush=True)', "the worker ended before it had answered"),
    ],
)
def test_a_worker_that_fails_is_reported(program: str, reason: str) -> None:
    with pytest.raises(LoadError, match=reason):
        asyncio.run(_lead(program))


def test_a_worker_that_cannot_be_started_is_reported() -> None:
    with pytest.raises(LoadError, match="cannot be started: No such file"):
        asyncio.run(LoadProcess("the worker", ["/no/such/program"]).start())


def test_a_worker_that_does_not_answer_is_not_waited_for_for_ever() -> None:
    async def impatient() -> None:
        program = 'print(\'{"type": "LoadReady"}\', flush=True); input()'
        worker = LoadProcess("the worker", [sys.executable, "-c", program])
        try:
            await worker.start()
            with pytest.raises(LoadError, match="has not answered"):
                await worker.answer(LoadReady, 0.05)
        finally:
            await worker.stop()

    asyncio.run(impatient())
