"""Commands that publish.

`resprout pub`: publishes one message, or every line of standard input. While publications are held, `HeldNotices` says
on standard error for which subscribers, and since when. `resprout request`: publishes a request and prints the reply.
`resprout reply`: answers requests. A reply is a fixed text, or the output of a command that gets the request on its
standard input.
"""

import asyncio
import logging
import os
import subprocess
import sys
import time
from collections.abc import Coroutine
from typing import Any, Final

import click
import msgspec

from resprout.cli.arguments import Seconds, parse_attributes
from resprout.cli.console import json_line, tell, tell_json
from resprout.cli.loop import Output, as_json, as_payload, read_lines, run_loop, stopped_by_signals, unless_stopped
from resprout.cli.server import Access, access_arguments, connected, count_option, verbose_option
from resprout.client.client import Client
from resprout.client.errors import ClientEvent, PublishError
from resprout.client.receipts import Receipt
from resprout.client.requesting import REQUEST_SECONDS, ServedRequest
from resprout.core.errors import PayloadRefusedError, UsageError
from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.core.limits import AttributeValue, check_keys, check_payload, check_topic
from resprout.edge.requests import PublishingHeld
from resprout.filters.predicate import check_filter

LOOK_SECONDS: Final = 0.2
"""How often to look whether the publications still wait."""


class HeldNotices:
    """Prints who is held, for whom and since when, and prints again when the reason changes or publishing goes on."""

    def __init__(self) -> None:
        self.name = ""
        """The publishing client."""
        self.latest: Receipt | None = None
        """The latest publication. It waits while any publication before it waits."""
        self._refusal = ""
        """Why the broker takes no publications at all."""
        self._told = ""
        self._since_s = 0.0

    def on_event(self, event: ClientEvent) -> None:
        if isinstance(event, PublishingHeld):
            self._refusal = event.reason
            self.look()

    async def watch(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Print a line if the reason has changed."""
        reason = self._refusal or (self.latest.waiting_for if self.latest is not None else "")
        if reason == self._told:
            return
        if not self._told:
            self._since_s = time.time()
        if reason:
            since = time.strftime("%H:%M:%S", time.localtime(self._since_s))
            tell(f"publisher {self.name} is held since {since}: {reason}", err=True)
        else:
            tell(f"publisher {self.name} goes on after {time.time() - self._since_s:.1f} s", err=True)
        self._told = reason


class Order(msgspec.Struct, frozen=True):
    """What is published, and how."""

    topic: str
    payload: bytes | None
    """None: the lines of standard input."""
    guarantee: Guarantee
    keys: tuple[str, ...]
    attributes: dict[str, AttributeValue]
    wait: ReceiptLevel
    timeout_s: float | None
    retain: bool = False
    ttl_s: float | None = None
    delay_s: float | None = None
    priority: int | None = None
    message_id: str | None = None


class PublishedLines(msgspec.Struct, frozen=True):
    """How many were published, and how far they have come, as `--json` prints it."""

    topic: str
    publisher: str
    guarantee: str
    count: int
    first: int | None
    last: int | None
    receipt: str
    first_id: str = ""
    last_id: str = ""
    """As `resprout trace` takes it; empty when nothing was published."""


@click.command()
@click.argument("topic")
@click.argument("payload", required=False)
@click.option(
    "--guarantee", metavar="G", default="causal", show_default=True,
    help="Order of delivery: eventual, fifo, causal or total.",
)  # fmt: skip
@click.option(
    "--key", "keys", multiple=True, metavar="K", help="A key of the topic that the message concerns; may be repeated."
)
@click.option(
    "--attr", "attributes", multiple=True, metavar="NAME=VALUE",
    help="For the conditions of subscribers. Numbers, true and false are recognised; 'quoted' stays text.",
)  # fmt: skip
@click.option(
    "--wait", type=click.Choice([kind.label for kind in ReceiptLevel]), default="accepted", show_default=True,
    help="Exit when the broker has it, when it survives crashes, or when every subscriber has it.",
)  # fmt: skip
@click.option("--timeout", type=Seconds(), metavar="SECONDS", help="Longest time to wait for that.")
@click.option("--retain", is_flag=True, help="Keep it as the last value of TOPIC; an empty PAYLOAD removes the value.")
@click.option("--ttl", type=Seconds(), metavar="SECONDS", help="The message, or last value, expires after so long.")
@click.option("--delay", type=Seconds(), metavar="SECONDS", help="Deliver it after so long, and not before.")
@click.option("--priority", type=click.IntRange(0, 9), metavar="N", help="Groups hand out higher ones first, up to 9.")
@click.option("--message-id", metavar="ID", help="Durable subscriptions drop later ones with the same ID.")
@access_arguments
@verbose_option
@click.option("--json", "as_json", is_flag=True, help="Print the publications as one JSON object.")
def pub(
    topic: str,
    payload: str | None,
    guarantee: str,
    keys: tuple[str, ...],
    attributes: tuple[str, ...],
    wait: str,
    timeout: float | None,
    retain: bool,
    ttl: float | None,
    delay: float | None,
    priority: int | None,
    message_id: str | None,
    access: Access,
    verbose: bool,
    as_json: bool,
) -> int:
    """Publish PAYLOAD on TOPIC; with - in its place, every line of standard input.

    \b
        resprout pub news/today 'it rains'
        resprout pub bank/pt 'deposit 120' --key acc-7 --attr amount=120 --wait safe
        seq 1 100 | resprout pub logs/app -
        resprout pub state/lamp on --retain

    The command prints nothing if it succeeds. While the publisher is held, a line on standard error names the
    subscriber that is not read, and the time. --verbose and --json print the id, for `resprout trace`.
    """
    if payload is None:
        raise UsageError("PAYLOAD is missing: give a payload, or - for the lines of standard input")
    if payload == "-" and message_id is not None:
        raise UsageError("--message-id is for one message: with -, all lines would have the same")
    order = Order(
        check_topic(topic),
        check_payload(os.fsencode(payload)) if payload != "-" else None,
        Guarantee.parse(guarantee),
        check_keys(keys),
        parse_attributes(attributes),
        ReceiptLevel[wait.upper()],
        timeout,
        retain,
        ttl,
        delay,
        priority,
        message_id,
    )
    logging.getLogger("resprout").addHandler(logging.NullHandler())  # what it would say is said here, to people only
    published = run_loop(_publish(order, access))
    if as_json:
        tell_json(published)
    elif verbose:
        ids = {published.first_id: None, published.last_id: None}
        named = f": {' to '.join(ids)}" if published.count else ""
        tell(f"{published.count} published on {published.topic}, {published.receipt}{named}", err=True)
    return 0


async def _publish(order: Order, access: Access) -> PublishedLines:
    notices = HeldNotices()
    async with connected(access, notices.on_event) as client:
        notices.name = client.name
        watching = asyncio.create_task(notices.watch())
        try:
            published = await _publish_all(client, order, notices)
            notices.look()
        finally:
            watching.cancel()
    return published


async def _publish_all(client: Client, order: Order, notices: HeldNotices) -> PublishedLines:
    first: Receipt | None = None
    last: Receipt | None = None
    count = 0
    if order.payload is not None:
        first = last = notices.latest = await _say(client, order, order.payload)
        count = 1
    else:
        async for lines in read_lines(sys.stdin.fileno(), client.max_payload):
            for line in lines:
                last = notices.latest = await _say(client, order, line)
                first = first or last
            count += len(lines)
    if last is not None:
        await _reach(last, order)
    return PublishedLines(
        order.topic, client.name, order.guarantee.label, count,
        first.seq if first else None, last.seq if last else None, order.wait.label, _id(first), _id(last),
    )  # fmt: skip


def _id(receipt: Receipt | None) -> str:
    return str(receipt.id) if receipt is not None else ""


async def _say(client: Client, order: Order, payload: bytes) -> Receipt:
    return await client.publish(
        order.topic, payload, guarantee=order.guarantee, keys=order.keys, attributes=order.attributes,
        retain=order.retain, ttl=order.ttl_s, delay=order.delay_s, priority=order.priority,
        message_id=order.message_id,
    )  # fmt: skip


async def _reach(receipt: Receipt, order: Order) -> None:
    """A receipt of the last publication includes all before it."""
    wait = {
        ReceiptLevel.ACCEPTED: receipt.accepted,
        ReceiptLevel.SAFE: receipt.safe,
        ReceiptLevel.DELIVERED: receipt.delivered,
    }[order.wait]
    try:
        async with asyncio.timeout(order.timeout_s):
            await wait()
    except TimeoutError:
        why = f": it {receipt.waiting_for}" if receipt.waiting_for else ""
        reason = f"not {order.wait.label} within {order.timeout_s:g} s, only {receipt.state}{why}"
        raise PublishError(reason, definite=False) from None


ERROR_LETTERS: Final = 500
"""As much of what a failed command wrote to standard error is sent to the client that asked."""


@click.command()
@click.argument("topic")
@click.argument("payload", default="")
@click.option("--timeout", type=Seconds(), metavar="SECONDS", default=REQUEST_SECONDS, show_default=True)
@click.option("--json", "json", is_flag=True, help="Print the whole reply as a JSON object.")
@access_arguments
def request(topic: str, payload: str, timeout: float, json: bool, access: Access) -> int:
    """Publish a request with PAYLOAD on TOPIC, and print the first reply.

    \b
        resprout request price/bread '2 loaves'
        resprout request price/bread --timeout 1 --json

    Exit status 1 when no client serves the topic, when no reply comes in time, or when the service reports a failure.
    """
    check_topic(topic)
    run_loop(_request(topic, check_payload(os.fsencode(payload)), timeout, json, access))
    return 0


async def _request(topic: str, payload: bytes, timeout_s: float, json: bool, access: Access) -> None:
    async with connected(access) as client:
        answer = await client.request(topic, payload, timeout=timeout_s)
    await Output(sys.stdout.fileno()).write([(as_json if json else as_payload)(answer)])


@click.command()
@click.argument("filter")
@click.argument("payload", required=False)
@click.option("--command", metavar="COMMAND", help="Reply with the output of this shell command.")
@count_option("End after N requests.")
@access_arguments
@verbose_option
def reply(
    filter: str, payload: str | None, command: str | None, count: int | None, access: Access, verbose: bool
) -> int:
    """Answer requests on topics that match FILTER with PAYLOAD, or with the output of a command, until Ctrl-C.

    \b
        resprout reply 'price/+' '4.20'
        resprout reply 'shout/#' --command 'tr a-z A-Z'

    Requests are answered one after the other. The command gets the payload on its standard input and the topic as
    RESPROUT_TOPIC. If it fails, the client that
    asked is told its exit status and the end of its standard error.
    """
    check_filter(filter)
    if (payload is None) == (command is None):
        raise UsageError("give PAYLOAD or --command COMMAND: one of them makes the reply")
    if command is not None and not command.strip():
        raise UsageError("--command is empty: give a shell command")
    fixed = check_payload(os.fsencode(payload)) if payload is not None else None
    work = _reply(filter, fixed, command, count, access, verbose)
    run_loop(_until_stopped(work))
    return 0


async def _until_stopped(work: Coroutine[Any, Any, None]) -> None:
    await unless_stopped(work, stopped_by_signals())


async def _reply(
    filter: str, fixed: bytes | None, command: str | None, count: int | None, access: Access, verbose: bool
) -> None:
    async with connected(access) as client:
        service = await client.serve(filter).ready()
        if verbose or sys.stderr.isatty():
            tell(f"serving {filter}", err=True)
        served = 0
        async for asked in service:
            if asked.wants_reply:
                await (_run(asked, command) if command is not None else asked.reply(fixed or b""))
                served += 1
            if verbose:
                tell(json_line({"topic": asked.topic, "client": asked.message.publisher}), err=True)
            if served == count:
                return


async def _run(asked: "ServedRequest[object]", command: str) -> None:
    """In a thread: a command may end without reading the request, which `subprocess.run` allows."""
    environment = {**os.environ, "RESPROUT_TOPIC": asked.topic}

    def run() -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            command, shell=True, input=asked.payload, capture_output=True, env=environment, check=False
        )

    done = await asyncio.to_thread(run)
    if done.returncode == 0:
        try:
            await asked.reply(done.stdout)
        except PayloadRefusedError as error:
            await asked.fail(f"the output of the command is no reply: {error}")
        return
    said = done.stderr.decode(errors="replace").strip()[-ERROR_LETTERS:]
    await asked.fail(f"the command ended with status {done.returncode}" + (f": {said}" if said else ""))
