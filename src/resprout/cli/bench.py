"""`resprout bench`: throughput and latency of brokers on this machine."""

import sys
from typing import Any, Final

import click
import msgspec

from resprout.cli.console import table_lines, tell, tell_json, tell_lines
from resprout.cli.load.ours import command
from resprout.cli.load.stream import SIZE_MIN
from resprout.cli.load.team import FloodResult, LoadProcess, OurChain, Team
from resprout.cli.load.worker import Flood, Pace
from resprout.cli.loop import run_loop, stopped_by_signals, unless_stopped
from resprout.core import limits
from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee
from resprout.stacks.stack import find_stack
from resprout.trace.summary import Latency, latency_of

MESSAGES: Final = 100_000
WARM_UP_MESSAGES: Final = 5_000
PACED_MESSAGES: Final = 2_000
PACED_INTERVAL_US: Final = 1_000

BROKERS_MAX: Final = 16
SUBSCRIBERS_MAX: Final = 256
MESSAGES_MAX: Final = 100_000_000
SECONDS_MAX: Final = 3_600.0

INTERRUPTED: Final = 130
"""The exit status of commands that were stopped by Ctrl-C."""


class BenchLoad(msgspec.Struct, frozen=True):
    """What to measure."""

    brokers: int
    subscribers: int
    size: int
    guarantee: Guarantee
    messages: int | None
    seconds: float | None


@click.command()
@click.option(
    "--brokers", type=click.IntRange(1, BROKERS_MAX), default=1, show_default=True, metavar="N",
    help="Length of the chain of brokers; the publisher is at one end, the subscribers are at the other.",
)  # fmt: skip
@click.option(
    "--subscribers", type=click.IntRange(1, SUBSCRIBERS_MAX), default=1, show_default=True, metavar="N",
    help="Number of subscribers; each gets every message.",
)  # fmt: skip
@click.option(
    "--size", type=click.IntRange(SIZE_MIN, limits.PAYLOAD_BYTES), default=32, show_default=True, metavar="BYTES",
    help="Size of a payload.",
)  # fmt: skip
@click.option("--messages", type=click.IntRange(1, MESSAGES_MAX), metavar="N", help=f"How many.  [default: {MESSAGES}]")
@click.option(
    "--seconds", type=click.FloatRange(0, SECONDS_MAX, min_open=True), metavar="S",
    help="Publish for this time instead.",
)  # fmt: skip
@click.option("--guarantee", metavar="G", default="causal", show_default=True, help="eventual, fifo or causal.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one JSON object.")
def bench(
    brokers: int,
    subscribers: int,
    size: int,
    messages: int | None,
    seconds: float | None,
    guarantee: str,
    as_json: bool,
) -> int:
    """Measure the rate and latency of brokers on this machine, and the processor time of a message.

    Publisher, brokers and subscribers are processes that talk over the loopback. The publisher first publishes as
    fast as it can, to measure the rate, and then 1,000 messages a second, to measure the latency. Exit status 1 if a
    message is lost or out of order.

    \b
        resprout bench
        resprout bench --brokers 3 --subscribers 8 --seconds 5

    All processes share the processors of this machine, so more processes get less each.
    """
    if messages is not None and seconds is not None:
        raise UsageError("--messages and --seconds are two ways to say when to stop; choose one")
    wanted = Guarantee.parse(guarantee)
    find_stack("resprout").check_guarantee(wanted)
    count = messages or (MESSAGES if seconds is None else None)
    load = BenchLoad(brokers, subscribers, size, wanted, count, seconds)
    figures = run_loop(_measure_unless_stopped(load))
    if figures is None:
        return INTERRUPTED
    flooded, latency = figures
    if as_json:
        tell_json(_as_data(load, flooded, latency))
    else:
        _print(load, flooded, latency)
    return 0


async def _measure_unless_stopped(load: BenchLoad) -> tuple[FloodResult, Latency] | None:
    return await unless_stopped(_measure(load), stopped_by_signals())


async def _measure(load: BenchLoad) -> tuple[FloodResult, Latency]:
    def worker(role: str, address: str) -> LoadProcess:
        return LoadProcess(f"the {role}", command(role, address, load.guarantee))

    _say(f"starting {load.brokers} broker(s), 1 publisher, {load.subscribers} subscriber(s)")
    async with Team(OurChain(load.brokers), worker, load.subscribers) as team:
        await team.flood(Flood(load.size, min(WARM_UP_MESSAGES, load.messages or WARM_UP_MESSAGES)))
        _say("as fast as it goes")
        flooded = await team.flood(Flood(load.size, load.messages, load.seconds))
        _say("a thousand a second")
        count = min(PACED_MESSAGES, load.messages or PACED_MESSAGES)
        latencies_us = await team.pace(Pace(load.size, count, PACED_INTERVAL_US))
    return flooded, latency_of(latencies_us)


def _say(step: str) -> None:
    """Progress, for people who wait."""
    if sys.stderr.isatty():
        tell(step, err=True)


def _as_data(load: BenchLoad, flooded: FloodResult, latency: Latency) -> dict[str, Any]:
    return {
        "brokers": load.brokers,
        "subscribers": load.subscribers,
        "size": load.size,
        "guarantee": load.guarantee.label,
        "messages": flooded.messages,
        "seconds": flooded.seconds,
        "messages_per_s": flooded.messages_per_s,
        "deliveries_per_s": flooded.deliveries_per_s,
        "cpu_us_per_message": {
            "publisher": flooded.publisher_us,
            "brokers": flooded.brokers_us,
            "subscriber": flooded.subscriber_us,
        },
        "paced_messages_per_s": 1_000_000 // PACED_INTERVAL_US,
        "latency": latency,
    }


def _print(load: BenchLoad, flooded: FloodResult, latency: Latency) -> None:
    tell(
        f"{flooded.messages:,} messages of {load.size} bytes, {load.guarantee.label}:"
        f" {load.brokers} broker(s), {load.subscribers} subscriber(s), {flooded.seconds:.2f} s"
    )
    rows = [
        ("published", f"{flooded.messages_per_s:,.0f}", "messages/s"),
        ("delivered", f"{flooded.deliveries_per_s:,.0f}", "messages/s"),
        ("processor time, publisher", f"{flooded.publisher_us:.2f}", "µs/message"),
    ]
    for at, broker_us in enumerate(flooded.brokers_us):
        rows.append((f"processor time, broker b{at}", "-" if broker_us is None else f"{broker_us:.2f}", "µs/message"))
    rows.append(("processor time, subscriber", f"{flooded.subscriber_us:.2f}", "µs/message"))
    for name, value_us in (
        ("median", latency.median_us), ("95 %", latency.p95_us), ("99 %", latency.p99_us), ("longest", latency.max_us)
    ):  # fmt: skip
        rows.append((f"latency at 1,000 messages/s, {name}", f"{value_us:,}", "µs"))
    tell_lines(table_lines(rows, numbers=(1,)))
