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
@click.option("--force", is_flag=True, help="Even brokers that are alive where this is said.")
@click.option("--json", "as_json", is_flag=True, help="Print what was passed on as one JSON object.")
def forget(names: tuple[str, ...], access: Access, force: bool, as_json: bool) -> int:
    """Tell the network that the brokers NAME... will never return.

    \b
        resprout forget b3 b7 --server b0.example:7450

    Where more brokers fall silent than may crash at once, nobody can tell a partition from a crash: totals wait until
    they are heard again. If they never will be, say so, to a broker of the part that is to go on. Name all of them at
    once. One that is heard after all is not let in as the one it was; it joins as a new one.

    Every client may do this, unless rules say who operates. A broker that is heard by the one that is asked is not
    forgotten: stop it instead, or use --force, if it hangs and nobody can stop it. It is then replaced, and told so as
    soon as it listens.
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
    """End the durable subscription NAME, with all that waits for it, whoever consumes it.

    \b
        resprout end-subscription billing --server b0.example:7450

    A durable subscription keeps everything until it is processed, also when nobody will ever come for it; then brokers
    fill up, and hold back publishers. Where rules say who may do what, this is for operators.
    """
    check_name(subscription, "name of a durable subscription")
    run_loop(_end(subscription, access))
    tell(f"{subscription} is over")
    return 0


async def _end(name: str, access: Access) -> None:
    async with connected(access) as client:
        await client.end_subscription(name)
