"""`resprout sub`: prints messages as they arrive. `resprout read`: prints the past events that a broker keeps.

Both say on standard error where the journal of events has gaps.
"""

import sys
from collections.abc import Coroutine
from typing import Any

import click

from resprout.cli.console import json_line, tell
from resprout.cli.loop import (
    Output,
    Show,
    as_fields,
    as_json,
    as_payload,
    as_text,
    run_loop,
    stopped_by_signals,
    unless_stopped,
)
from resprout.cli.server import Access, access_arguments, connected, count_option, verbose_option
from resprout.client.durable import DurableInbox
from resprout.client.errors import ClientEvent, EventsMissing, MessagesDropped, gap_text
from resprout.client.inbox import Inbox
from resprout.client.past_events import EventsPage, Offset, Start, read_start
from resprout.client.redelivery import Redelivery
from resprout.client.retaining import check_retained
from resprout.client.terms import WHEN_FULL, WhenFullWord, read_policy, read_terms
from resprout.core.errors import UsageError
from resprout.core.limits import check_name
from resprout.edge.requests import StoredMessage
from resprout.filters.predicate import check_filter, parse_predicate

allow_gaps_option = click.option(
    "--allow-gaps", is_flag=True, help="Continue after gaps, where the broker was down, and report them."
)


@click.command()
@click.argument("filter")
@click.option("--where", metavar="EXPR", help='Only messages whose attributes match, e.g. "amount > 100".')
@count_option("End after N messages.")
@click.option("--json", "json", is_flag=True, help="Print messages with all fields, one JSON object a line.")
@click.option("--raw", is_flag=True, help="Print unchanged payloads only, each followed by a newline.")
@click.option("--durable", metavar="NAME", help="Name of a durable subscription, which resumes where it stopped.")
@click.option(
    "--group", metavar="NAME", help="Share a durable subscription: each message goes to one consumer of the group."
)
@click.option(
    "--when-full", type=click.Choice(list(WHEN_FULL)), metavar="block|drop_oldest|disconnect|spill",
    help="What the broker does when this reader is too slow. Default: disconnect; with --durable or --group, block. "
    "Only these can spill.",
)  # fmt: skip
@click.option(
    "--max-deliver", type=click.IntRange(1), metavar="N",
    help="With --durable or --group: a message that is delivered N times without an ack becomes a dead letter.",
)  # fmt: skip
@click.option(
    "--ack-wait", type=float, metavar="SECONDS",
    help="With --durable or --group: a message that is not acknowledged in this time is delivered again.",
)  # fmt: skip
@click.option("--replay-from", metavar="WHERE", help="Begin with stored events: 'earliest', an offset or a time.")
@click.option("--retained", is_flag=True, help="Begin with the last value of each topic.")
@click.option("--log", metavar="NAME", help="Follow this log, from --replay-from on. [the latest]")
@allow_gaps_option
@access_arguments
@verbose_option
def sub(
    filter: str,
    where: str | None,
    count: int | None,
    json: bool,
    raw: bool,
    durable: str | None,
    group: str | None,
    when_full: WhenFullWord | None,
    max_deliver: int | None,
    ack_wait: float | None,
    replay_from: str | None,
    retained: bool,
    log: str | None,
    allow_gaps: bool,
    access: Access,
    verbose: bool,
) -> int:
    """Print messages on topics that match FILTER, one message a line, until Ctrl-C.

    In a filter, + stands for one level of a topic and a # at the end for all that follow. Control characters in topics
    and payloads are printed as escapes such as \\x1b; --raw prints payloads unchanged.

    \b
        resprout sub 'news/#'
        resprout sub bank/+ --where "amount > 100 and currency = 'EUR'" --json
        resprout sub logs/app --raw --count 100 > sample.log
        resprout sub 'bank/#' --replay-from earliest --server localhost:7455
        resprout sub 'bank/#' --log bank --replay-from log.bank@41
        resprout sub 'orders/#' --durable billing
        resprout sub 'jobs/#' --group workers --max-deliver 5 --ack-wait 30
        resprout sub 'state/#' --retained
        resprout sub 'orders/#' --durable archive --when-full spill

    A message of a durable subscription counts as processed when it is printed. `resprout end-subscription` ends it.
    """
    for name in (durable, group):
        if name is not None:
            check_name(name, "name of a durable subscription")
    if replay_from is not None:
        if group is not None:
            raise UsageError("a group does not begin in the past: --replay-from is for others")
        read_start(replay_from, "--replay-from")
    elif allow_gaps and durable is None and log is None:
        raise UsageError("--allow-gaps is for what begins in the past: --replay-from says where")
    if when_full is not None:
        if durable is None and group is None:
            read_policy(when_full)
        else:
            read_terms(filter, where, durable, group, when_full, None)
    redelivery = None
    if max_deliver is not None or ack_wait is not None:
        if durable is None and group is None:
            raise UsageError("--max-deliver and --ack-wait are for durable subscriptions: give --durable or --group")
        redelivery = Redelivery(max_deliver=max_deliver, ack_wait=ack_wait)
        read_terms(filter, where, durable, group, when_full, None, redelivery)
    if json and raw:
        raise UsageError("--json and --raw are two ways to print; choose one")
    _check(filter, where)
    show = as_json if json else as_payload if raw else as_text
    is_told = verbose or sys.stderr.isatty()
    check_retained(retained, {"--durable": durable, "--group": group, "--replay-from": replay_from, "--log": log})
    work = _follow(
        filter,
        where,
        count,
        show,
        access,
        is_told,
        durable,
        group,
        when_full,
        redelivery,
        replay_from,
        allow_gaps,
        log,
        retained,
    )
    run_loop(_print_arriving(work))
    return 0


def _check(filter: str, where: str | None) -> None:
    check_filter(filter)
    try:
        parse_predicate(filter, where)
    except UsageError as error:
        raise UsageError(f"--where {where!r}: {error}") from None


async def _print_arriving(work: Coroutine[Any, Any, None]) -> None:
    await unless_stopped(work, stopped_by_signals())


def _warn(event: ClientEvent) -> None:
    tell_missing(event)
    if isinstance(event, MessagesDropped):
        why = event.reason or "this is not read fast enough"
        tell(f"resprout: {event.count} messages were dropped: {why}", err=True)


async def _follow(
    filter: str,
    where: str | None,
    count: int | None,
    show: Show,
    access: Access,
    verbose: bool,
    durable: str | None,
    group: str | None,
    when_full: WhenFullWord | None,
    redelivery: Redelivery | None,
    replay_from: str | None,
    allow_gaps: bool,
    log: str | None,
    retained: bool,
) -> None:
    output = Output(sys.stdout.fileno())
    async with connected(access, _warn) as client:
        inbox: Inbox
        if durable is None and group is None:
            inbox = await client.subscribe(
                filter, where, when_full=when_full, replay_from=replay_from, allow_gaps=allow_gaps, log=log,
                retained=retained,
            )  # fmt: skip
        else:
            # With manual acks exactly what was printed counts as processed. Of the last batch, messages beyond --count
            # stay for the next consumer.
            inbox = await client.subscribe(
                filter, where, durable=durable, group=group, when_full=when_full, manual_ack=True,
                redelivery=redelivery, replay_from=replay_from, allow_gaps=allow_gaps, log=log,
            )  # fmt: skip
        if verbose:
            tell(f"subscribed to {filter}" + (f" where {where}" if where else ""), err=True)
        async for messages in inbox.batches():
            wanted = messages if count is None else messages[:count]
            await output.write(map(show, wanted))
            if isinstance(inbox, DurableInbox):
                for message in wanted:
                    message.ack()
            if count is not None:
                count -= len(wanted)
                if not count:
                    return


@click.command()
@click.argument("filter")
@click.option("--where", metavar="EXPR", help='Only messages whose attributes match, e.g. "amount > 100".')
@click.option(
    "--from", "start", default="earliest", show_default=True, metavar="OFFSET",
    help="First message: an offset, a time such as 2026-03-01T12:00:00Z, earliest or latest.",
)  # fmt: skip
@click.option("--log", metavar="NAME", help="Read this log, from any broker. [the events of the broker]")
@count_option("End after N messages.")
@click.option("--json", "json", is_flag=True, help="Print messages with all fields, one JSON object a line.")
@allow_gaps_option
@access_arguments
def read(
    filter: str,
    where: str | None,
    start: str,
    log: str | None,
    count: int | None,
    json: bool,
    allow_gaps: bool,
    access: Access,
) -> int:
    """Print stored events of topics that match FILTER, one message a line, and end.

    With --log it prints a log (docs/logs.md) instead, from any broker; offsets are those of the log.

    Only a broker with `keep`, such as a tap, stores events. Each line begins with the offset of the message in that
    broker's journal; --from continues there, as long as it is stored.

    The journal lacks events that were published while its broker was down. At such a gap the command reports the
    missing range and fails; with --allow-gaps it reports the range on standard error and continues.

    \b
        resprout read 'bank/#' --server localhost:7455
        resprout read 'bank/#' --server localhost:7455 --from 2026-03-01T12:00:00Z -n 10 --json
        resprout read 'bank/#' --log bank --from log.bank@41
    """
    parse_predicate(filter, where)
    work = _pages(filter, where, read_start(start, "--from"), log, count, json, allow_gaps, access)
    run_loop(_print_past(work))
    return 0


async def _print_past(work: Coroutine[Any, Any, None]) -> None:
    await unless_stopped(work, stopped_by_signals())


async def _pages(
    filter: str,
    where: str | None,
    start: Start,
    log: str | None,
    limit: int | None,
    json: bool,
    allow_gaps: bool,
    access: Access,
) -> None:
    output = Output(sys.stdout.fileno())
    async with connected(access) as client:
        while True:
            page = await client.read(filter, where, start=start, allow_gaps=allow_gaps, log=log)
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


def tell_gaps(page: EventsPage) -> None:
    """One line each, on standard error."""
    for gap in page.gaps:
        _warn_of_gap(gap_text(page.journal, gap))


def tell_missing(event: ClientEvent) -> None:
    """For `connect(on_event=...)`."""
    if isinstance(event, EventsMissing):
        _warn_of_gap(event.reason)


def _warn_of_gap(text: str) -> None:
    tell(f"resprout: warning: {text}", err=True)
