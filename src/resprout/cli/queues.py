"""Durable subscriptions and their messages: `resprout subscriptions`, `peek`, `purge` and `dead-letters`."""

from collections.abc import Sequence

import click
import msgspec

from resprout.cli.console import tell, tell_json, tell_lines
from resprout.cli.loop import run_loop
from resprout.cli.server import Access, access_arguments, connected
from resprout.cli.status import AskingCommand, counted, size
from resprout.client.queues import PEEKED, PEEKED_MAX
from resprout.core.limits import AttributeValue, check_name
from resprout.core.message import Message
from resprout.stacks.status import DurableSeen


class PeekedMessage(msgspec.Struct, frozen=True):
    """A message, as `--json` prints it."""

    id: str
    topic: str
    payload: str
    """As UTF-8; what is none is replaced."""
    attributes: dict[str, AttributeValue]
    deliveries: int


@click.command()
@access_arguments
@click.option("--json", "as_json", is_flag=True, help="Print them as one JSON array.")
def subscriptions(access: Access, as_json: bool) -> int:
    """Show every durable subscription and group: its home, consumers, lag and policy.

    \b
        resprout subscriptions

    The lag counts what is not acknowledged: messages that wait, that consumers have, that are delayed, and dead ones
    whose dead letter is not safe yet. The command asks every broker; the rights are those of `resprout status`. Exit
    status 1 when a broker does not answer: the subscriptions that it holds are missing, and a line names it (on the
    error output with --json).
    """
    found = run_loop(AskingCommand(access).survey())
    seen = sorted((one for broker in found.brokers for one in broker.durables), key=lambda one: one.name)
    if as_json:
        tell_json(seen)
    else:
        tell_lines([line for one in seen for line in _lines(one)] or ["there are no durable subscriptions"])
    tell_lines((f"{one.name} does not answer: {one.reason}" for one in found.missing), err=as_json)
    return 1 if found.missing else 0


def _lines(one: DurableSeen) -> list[str]:
    where = f" where {one.where}" if one.where else ""
    lag = f"lag {counted(one.lag_messages, 'message')}, {size(one.lag_bytes)}, {one.lag_seconds:.0f} s"
    parts = [
        f"{one.name}  {'group' if one.group else 'single'} on {one.filter}{where}", f"at {one.home}", lag,
        f"{one.waiting} waiting, {one.unacked} unacked, {one.delayed} delayed, {one.dead} dead",
        f"redelivered {one.redeliveries}", f"when_full {one.when_full}",
    ]  # fmt: skip
    if one.dead_letter:
        limits = [f"max_deliver {one.max_deliver or 'none'}", f"ack_wait {one.ack_wait_seconds or 'none'}"]
        parts += [*limits, f"{counted(one.dead_letters, 'dead letter')} on {one.dead_letter}"]
    if one.dropped:
        parts.append(f"dropped {one.dropped}")
    if one.repeats:
        parts.append(f"repeats dropped {one.repeats}")
    consumers = [f"  consumer {each.name}  {each.messages} unacked" for each in one.consumers]
    more = one.consumers_count - len(one.consumers)
    return ["  ".join(parts), *(consumers or ["  no consumer"]), *([f"  and {more} more"] if more else [])]


_count_option = click.option(
    "--count", "-n", type=click.IntRange(1, PEEKED_MAX), default=PEEKED, show_default=True, help="Messages, at most."
)


@click.command()
@click.argument("subscription", metavar="NAME")
@access_arguments
@_count_option
@click.option("--json", "as_json", is_flag=True, help="Print them as one JSON array.")
def peek(subscription: str, access: Access, count: int, as_json: bool) -> int:
    """Show the next messages that wait for the durable subscription NAME. They stay there.

    \b
        resprout peek workers -n 3
    """
    _tell(run_loop(_peek(check_name(subscription, "name of a durable subscription"), count, access)), as_json)
    return 0


async def _peek(name: str, count: int, access: Access) -> Sequence[Message]:
    async with connected(access) as client:
        return await client.peek(name, count)


def _tell(messages: Sequence[Message], as_json: bool) -> None:
    shown = [
        PeekedMessage(str(m.id), m.topic, m.payload.decode(errors="replace"), m.attributes, m.deliveries)
        for m in messages
    ]
    if as_json:
        tell_json(shown)
    else:
        tell_lines([_message_line(one) for one in shown] or ["no message waits"])


def _message_line(one: PeekedMessage) -> str:
    about = "  ".join(f"{name}={value}" for name, value in one.attributes.items())
    return "  ".join([one.id, one.topic, one.payload, *([about] if about else [])])


@click.command()
@click.argument("subscription", metavar="NAME")
@access_arguments
def purge(subscription: str, access: Access) -> int:
    """Drop all messages that wait for the durable subscription NAME.

    \b
        resprout purge workers

    Messages that consumers have stay with them. Consumers are told how many messages were dropped. With rules, the
    owner of the subscription and identities that may `manage` it can do this.
    """
    run_loop(_purge(check_name(subscription, "name of a durable subscription"), access))
    tell(f"{subscription} is empty")
    return 0


async def _purge(name: str, access: Access) -> None:
    async with connected(access) as client:
        await client.purge(name)


@click.command(name="dead-letters")
@click.argument("subscription", metavar="NAME")
@access_arguments
@_count_option
@click.option("--replay", is_flag=True, help="Publish all of them again, each on its old topic, and remove them.")
@click.option("--json", "as_json", is_flag=True, help="Print the messages as one JSON array.")
def dead_letters(subscription: str, access: Access, count: int, replay: bool, as_json: bool) -> int:
    """Show the dead letters of the durable subscription NAME, or replay them.

    \b
        resprout dead-letters workers
        resprout dead-letters workers --replay

    A dead letter is a message that was delivered too often without an acknowledgement, or that a consumer gave up. Its
    attributes tell its topic, its id, how often it was delivered, its last consumer and the reason. A replayed message
    goes to all subscribers of its topic.
    """
    name = check_name(subscription, "name of a durable subscription")
    if replay:
        tell(f"{counted(run_loop(_replay(name, access)), 'dead letter')} replayed")
    else:
        _tell(run_loop(_peek(f"{name}.dead", count, access)), as_json)
    return 0


async def _replay(name: str, access: Access) -> int:
    async with connected(access) as client:
        return await client.replay_dead_letters(name)
