"""From `Client.subscribe(..., durable=...)` to a consumer with a session of its own."""

import asyncio
import random
import secrets
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Literal

from resprout.client.asking import EventsPage, Start
from resprout.client.durable_inbox import DurableInbox
from resprout.client.errors import SubscribeError
from resprout.client.events import OnEvent, TellGap
from resprout.client.replaying import ReadPage
from resprout.core import limits
from resprout.core.errors import UnsupportedSubscriptionError, UsageError
from resprout.core.names import check_name
from resprout.edge.client.consumer import ConsumerMachine
from resprout.edge.durable_messages import Terms, WhenFull
from resprout.edge.messages import Extra, Serving
from resprout.filters.predicate import parse_predicate
from resprout.links.links import Links
from resprout.links.options import LinkOptions
from resprout.net.discover import UnreachableError, who_is
from resprout.net.frames import Here
from resprout.net.host import Host
from resprout.net.sessions import CODEC, EncodedBodies, incarnation_max, next_incarnation, random_epoch

WhenFullWord = Literal["block", "drop_oldest", "disconnect", "spill"]
WHEN_FULL: Final[Mapping[str, WhenFull]] = {
    "block": WhenFull.BLOCK,
    "drop_oldest": WhenFull.DROP_OLDEST,
    "disconnect": WhenFull.DISCONNECT,
    "spill": WhenFull.SPILL,
}
ANSWER_SECONDS: Final = 5.0
"""How long a broker may take to say who it is, before another one is asked."""
MOST: Final = 10_000
"""Messages that may wait where the oldest are dropped, unless told otherwise."""


def read_terms(
    filter: str, where: str | None, durable: str | None, group: str | None, when_full: str | None, most: int | None
) -> tuple[str, Terms]:
    """The name of a durable subscription, and what it is. UsageError for what cannot be."""
    if durable is not None and group is not None and durable != group:
        raise UsageError(f"a group shares the durable subscription of its name: {durable!r} and {group!r} are two")
    name = check_name(durable or group or "", "name of a durable subscription")
    parse_predicate(filter, where)
    policy = _policy(when_full or "block")
    if policy is WhenFull.DISCONNECT:
        raise UsageError("a durable subscription stays when nobody reads it: 'block', 'drop_oldest' or 'spill'")
    drops = policy is WhenFull.DROP_OLDEST
    if most is not None and (not drops or most < 1):
        raise UsageError("`most` is for 'drop_oldest': how many messages may wait, at least 1")
    return name, Terms(filter, where, group is not None, policy, (most or MOST) if drops else 0)


def read_policy(when_full: str) -> WhenFull:
    """The policy of a plain subscription. UsageError for one that it cannot have."""
    policy = _policy(when_full)
    if policy is WhenFull.SPILL:
        raise UsageError("only a durable subscription spills: give its name, or 'block', 'drop_oldest' or 'disconnect'")
    return policy


def _policy(word: str) -> WhenFull:
    policy = WHEN_FULL.get(word)
    if policy is None:
        raise UsageError(f"{word!r} is none of {', '.join(map(repr, WHEN_FULL))}")
    return policy


def check_offered_here(serving: Serving | None) -> None:
    """UnsupportedSubscriptionError where brokers keep none."""
    if serving is None or Extra.DURABLE not in serving.extras:
        stack = f"the stack {serving.stack!r}" if serving is not None else "the stack"
        raise UnsupportedSubscriptionError(f"{stack} does not offer durable subscriptions; 'resprout' does")


def consumer_name(client: str, subscription: str) -> str:
    """Of the session: one that belongs to this client, also where rules say what its clients may be called."""
    name = f"{client}.{subscription}"
    if len(name) <= limits.NAME_BYTES:
        return name
    digits = f".{zlib.crc32(name.encode()):08x}"
    return name[: limits.NAME_BYTES - len(digits)] + digits


async def consume(
    host: Host,
    client: str,
    brokers: Sequence[str],
    links: LinkOptions,
    name: str,
    terms: Terms,
    *,
    window: int | None = None,
    by_hand: bool = False,
    on_event: OnEvent | None = None,
    ends: bool = False,
    replay: str = "",
    read: Callable[[str, Start], Awaitable[EventsPage]] | None = None,
    missing: TellGap = lambda journal, gap: None,
) -> DurableInbox:
    """`host`: that of the client, which knows where `brokers` are. Returns when the subscription is confirmed; with
    `ends`, when it is over."""
    session = consumer_name(client, name)
    here = await _first_that_answers(host, session, brokers)
    incarnation = next_incarnation(here.met)
    others = [other for other in brokers if other != here.name]
    machine = ConsumerMachine(
        session, incarnation, here.name, name, terms, window=window, others=others, ends=ends, replay=replay
    )
    read_there = _reading_at(lambda: machine.broker, read) if read is not None else None
    inbox = DurableInbox(name, by_hand, on_event, asyncio.get_running_loop(), read_there, missing)
    carried = Links(
        machine,
        name=session,
        role="client",
        incarnation=incarnation,
        rng=random.Random(secrets.randbits(64)),
        options=links,
        first_epoch=random_epoch(),
        bodies=EncodedBodies(CODEC),
        incarnation_max=incarnation_max,
    )
    own = Host(carried, CODEC, Here(session, "client", incarnation), host.where, inbox.hear, door=host.door)
    inbox.run_on(own)
    own.start()
    try:
        await (inbox.over_for_all() if ends else inbox.began)
    except BaseException:
        await inbox.close()
        raise
    return inbox


def _reading_at(home: Callable[[], str], read: Callable[[str, Start], Awaitable[EventsPage]]) -> ReadPage:
    """What is given has the same order as what is read only where both come from one broker."""

    async def read_there(start: Start) -> EventsPage:
        return await read(home(), start)

    return read_there


async def _first_that_answers(host: Host, session: str, brokers: Sequence[str]) -> Here:
    reasons: list[str] = []
    for broker in brokers:
        address = host.where(broker)
        if address is not None:
            try:
                return await who_is(address, ANSWER_SECONDS, session, keyring=host.door.keyring)
            except UnreachableError as error:
                reasons.append(str(error))
    raise SubscribeError("; ".join(reasons) or "nobody knows where the brokers are")
