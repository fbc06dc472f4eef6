"""Decisions of an operator about the whole network.

`resprout forget`: the named brokers will never return. `resprout end-subscription`: a durable subscription ends for all
its consumers.
"""

import click
import msgspec

from resprout.cli.console import tell, tell_json
from resprout.cli.loop import run_loop
from resprout.cli.server import Access, access_arguments, connected
from resprout.core.limits import check_name
from resprout.edge.client.questions import check_names


class Forgotten(msgspec.Struct, frozen=True):
    """Whom the network does without from now on, as `--json` prints it."""

    names: tuple[str, ...]


@click.command()
@click.argument("names", nargs=-1, metavar="NAME...")
@access_arguments
@click.option("--force", is_flag=True, help="Forget brokers that are still heard, too.")
@click.option("--json", "as_json", is_flag=True, help="Print what was passed on as one JSON object.")
def forget(names: tuple[str, ...], access: Access, force: bool, as_json: bool) -> int:
    """Tell the network that the brokers NAME... will never return.

    \b
        resprout forget b3 b7 --server b0.example:7450

    When more brokers fall silent than may crash at once, it could be a partition, so totals wait until they are heard
    again. If they never return, run this command at a broker of the part that continues. Name all of them at once. A
    forgotten broker that returns joins as a new one.

    With rules, only identities that may `operate` can do this; with TLS and without rules, only operators. A broker
    that is still heard is not forgotten: stop it, or use --force if it hangs and you cannot. It is then replaced, and
    joins as a new one when it listens again.
    """
    forgotten = Forgotten(check_names(names))
    run_loop(_forget(forgotten, access, force))
    if as_json:
        tell_json(forgotten)
    else:
        for name in forgotten.names:
            tell(f"{name} is forgotten")
    return 0


async def _forget(forgotten: Forgotten, access: Access, force: bool) -> None:
    async with connected(access) as client:
        await client.forget(*forgotten.names, force=force)


@click.command(name="end-subscription")
@click.argument("subscription", metavar="NAME")
@access_arguments
def end_subscription(subscription: str, access: Access) -> int:
    """End the durable subscription NAME for all its consumers, and drop its messages.

    \b
        resprout end-subscription billing --server b0.example:7450

    A durable subscription without a consumer stores messages until its share is full, and then holds back publishers.
    With rules, its owner and identities that may `manage` it can end it.
    """
    check_name(subscription, "name of a durable subscription")
    run_loop(_end(subscription, access))
    tell(f"{subscription} is over")
    return 0


async def _end(name: str, access: Access) -> None:
    async with connected(access) as client:
        await client.end_subscription(name)
