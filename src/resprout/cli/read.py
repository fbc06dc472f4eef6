"""`resprout read`: prints what a broker keeps of the past."""

import sys
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any

import click

from resprout.cli.blocking import Output
from resprout.cli.console import json_line
from resprout.cli.gaps import allow_gaps_option, tell_gaps
from resprout.cli.loop import run_loop, stopped_by_signals, unless_stopped
from resprout.cli.server import Access, access_arguments, connected
from resprout.cli.show import as_fields, as_text
from resprout.client.past import EventsPage, Offset, Start, read_offset
from resprout.core.errors import UsageError
from resprout.edge.requests import StoredMessage
from resprout.filters.predicate import parse_predicate


@click.command()
@click.argument("filter")
@click.option("--where", metavar="EXPR", help='Only messages whose attributes fulfil this, e.g. "amount > 100".')
@click.option(
    "--from", "start", default="earliest", show_default=True, metavar="OFFSET",
    help="Where to begin: an offset as it is printed, a time such as 2026-03-01T12:00:00Z, earliest or latest.",
)  # fmt: skip
@click.option("--limit", type=click.IntRange(1), metavar="N", help="End after N messages.")
@click.option("--json", "json", is_flag=True, help="Print everything that is known, one JSON object a line.")
@allow_gaps_option
@access_arguments
def read(
    filter: str, where: str | None, start: str, limit: int | None, json: bool, allow_gaps: bool, access: Access
) -> int:
    """Print what the broker keeps of topics that match FILTER, one message a line, and end.

    Only a broker with `keep`, such as a tap, keeps events. Each line begins with the offset of the message, which is
    one of that broker's journal: --from goes on there, for as long as it is kept.

    What was published while the broker was down is missing in its journal. The command fails where it comes to such a
    gap, and says what is missing; with --allow-gaps it says so on standard error and goes on.

    \b
        resprout read 'bank/#' --server localhost:7455
        resprout read 'bank/#' --server localhost:7455 --from 2026-03-01T12:00:00Z --limit 10 --json
    """
    parse_predicate(filter, where)
    work = _pages(filter, where, _start(start), limit, json, allow_gaps, access)
    run_loop(_print(work))
    return 0


def _start(text: str) -> Start:
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    if "@" in text:
        return read_offset(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"--from {text}: neither an offset nor a time, earliest or latest") from None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


async def _print(work: Coroutine[Any, Any, None]) -> None:
    await unless_stopped(work, stopped_by_signals())


async def _pages(
    filter: str, where: str | None, start: Start, limit: int | None, json: bool, allow_gaps: bool, access: Access
) -> None:
    output = Output(sys.stdout.fileno())
    async with connected(access) as client:
        while True:
            page = await client.read(filter, where, start=start, allow_gaps=allow_gaps)
            tell_gaps(page)
            wanted = page.messages if limit is None else page.messages[:limit]
            await output.write(_line(page, stored, json) for stored in wanted)
            if limit is not None:
                limit -= len(wanted)
            if page.at_end or limit == 0:
                return
            start = page.next


def _line(page: EventsPage, stored: StoredMessage, json: bool) -> str:
    offset = page.offset_of(stored)
    return _object(offset, stored) if json else f"{offset} {as_text(stored.message)}"


def _object(offset: Offset, stored: StoredMessage) -> str:
    fields = as_fields(stored.message)
    fields |= {"offset": str(offset), "journal": offset.journal, "index": stored.index, "life": stored.life}
    fields["time_us"] = stored.time_us
    return json_line(fields)
