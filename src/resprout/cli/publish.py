"""`resprout pub`: publishes one message, or every line of standard input.

While publications are held, `HeldNotices` says on standard error for which subscribers, and since when.
"""

import asyncio
import logging
import os
import sys
import time
from typing import Final

import click
import msgspec

from resprout.cli.arguments import Seconds, parse_attributes
from resprout.cli.console import tell, tell_json
from resprout.cli.loop import run_loop
from resprout.cli.server import Access, access_arguments, connected, verbose_option
from resprout.cli.standard_io import read_lines
from resprout.client.client import Client
from resprout.client.errors import ClientEvent, PublishError
from resprout.client.receipts import Receipt
from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.core.limits import AttributeValue, check_keys, check_payload, check_topic
from resprout.edge.requests import PublishingHeld

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
@click.option("--timeout", type=Seconds(), metavar="SECONDS", help="Wait no longer than this for that.")
@access_arguments
@verbose_option
@click.option("--json", "as_json", is_flag=True, help="Print what was published as one JSON object.")
def pub(
    topic: str,
    payload: str | None,
    guarantee: str,
    keys: tuple[str, ...],
    attributes: tuple[str, ...],
    wait: str,
    timeout: float | None,
    access: Access,
    verbose: bool,
    as_json: bool,
) -> int:
    """Publish PAYLOAD on TOPIC; with - in its place, every line of standard input.

    \b
        resprout pub news/today 'it rains'
        resprout pub bank/pt 'deposit 120' --key acc-7 --attr amount=120 --wait safe
        tail -f app.log | resprout pub logs/app -

    Nothing is printed when all went well. While the publisher is held, a line on standard error says for whom and since
    when. --verbose and --json tell the id, for `resprout trace`.
    """
    if payload is None:
        raise UsageError("PAYLOAD is missing: give a payload, or - for the lines of standard input")
    order = Order(
        check_topic(topic),
        check_payload(os.fsencode(payload)) if payload != "-" else None,
        Guarantee.parse(guarantee),
        check_keys(keys),
        parse_attributes(attributes),
        ReceiptLevel[wait.upper()],
        timeout,
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
        async for lines in read_lines(sys.stdin.fileno()):
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
        order.topic, payload, guarantee=order.guarantee, keys=order.keys, attributes=order.attributes
    )


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
