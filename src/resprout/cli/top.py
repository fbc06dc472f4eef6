"""`resprout top`: the brokers of a tree and what they do, again and again."""

import asyncio
import sys
import time
from collections.abc import Callable, Iterator

import click
import msgspec

from resprout.cli.console import full_screen, table_lines, tell_json, tell_lines
from resprout.cli.loop import run_loop, stopped_by_signals, unless_stopped
from resprout.cli.server import Access, access_arguments, count_option
from resprout.cli.status import AskingCommand, heading, news_lines, size
from resprout.core.errors import escape
from resprout.net.accounts import LatencySummary, TreeSurvey

COLUMNS = ("broker", "parent", "clients", "in/s", "out/s", "through/s", "safe p99", "delivered p99", "queue", "log")


@click.command()
@access_arguments
@click.option("--interval", type=click.FloatRange(0.1, 3600), default=1.0, show_default=True, metavar="SECONDS")
@count_option("Look N times, and end.")
@click.option("--json", "as_json", is_flag=True, help="Print each look as a JSON object, one a line.")
def top(access: Access, interval: float, count: int | None, as_json: bool) -> int:
    """Show rates and queues of all brokers, until Ctrl-C.

    \b
        resprout top
        resprout top --count 1 | tail -n +2 | sort -k4

    In a terminal the table is drawn anew each time. In a pipe the first line names the columns, and each look is a line
    for each broker, with the time in front of it.
    """
    return run_loop(_watch(AskingCommand(access), interval, count, as_json))


async def _watch(asking: AskingCommand, interval_s: float, count: int | None, as_json: bool) -> int:
    stop = stopped_by_signals()
    if as_json or not sys.stdout.isatty():
        lines = _Lines()
        await _look(
            asking, interval_s, count, stop, tell_json if as_json else lambda found: tell_lines(lines.of(found))
        )
        return 0
    if count is not None:
        await _look(asking, interval_s, count, stop, lambda found: tell_lines(_drawn(found)))
        return 0
    with full_screen() as draw:
        await _look(asking, interval_s, count, stop, lambda found: draw(_drawn(found)))
    return 0


async def _look(
    asking: AskingCommand, interval_s: float, count: int | None, stop: asyncio.Event, show: Callable[[TreeSurvey], None]
) -> None:
    looks = 0
    while count is None or looks < count:
        if looks and await unless_stopped(_pause(interval_s), stop) is None:
            return
        found = await unless_stopped(asking.survey(), stop)
        if found is None:
            return
        show(found)
        looks += 1


async def _pause(seconds: float) -> bool:
    await asyncio.sleep(seconds)
    return True


class _Lines:
    """For a pipe: the first line names the columns."""

    def __init__(self) -> None:
        self._before = [" ".join(("time", *[column.replace(" ", "_") for column in COLUMNS]))]

    def of(self, found: TreeSurvey) -> list[str]:
        before, self._before = self._before, []
        return before + _as_lines(found)


def _as_lines(found: TreeSurvey) -> list[str]:
    at = time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(found.time))
    lines = [f"{at} {' '.join(cell.replace(' ', '') or '-' for cell in row)}" for row in _rows(found)]
    return lines + [f"{at} {one.name} no answer: {one.reason}" for one in found.missing]


def _drawn(found: TreeSurvey) -> list[str]:
    blank = [""] * (len(COLUMNS) - 2)
    silent = [(escape(one.name), "dead" if one.dead else "no answer", *blank) for one in found.missing]
    rows = [COLUMNS, *_rows(found), *silent]
    return [heading(found), *table_lines(rows, numbers=range(2, len(COLUMNS))), *news_lines(found)]


def _rows(found: TreeSurvey) -> Iterator[tuple[str, ...]]:
    for one in found.brokers:
        yield (
            escape(one.name),
            escape(one.parent) if isinstance(one.parent, str) else "-",
            str(one.clients_count),
            f"{one.rates.publications:.1f}",
            f"{one.rates.deliveries:.1f}",
            f"{one.rates.carried + one.rates.passed_on:.1f}",
            _latency(one.safe_latency),
            _latency(one.delivered_latency),
            size(one.queue_bytes),
            size(one.log_bytes) if isinstance(one.log_bytes, int) else "-",
        )


def _latency(summary: LatencySummary | msgspec.UnsetType) -> str:
    return f"{summary.p99_ms:g} ms" if isinstance(summary, LatencySummary) else "-"
