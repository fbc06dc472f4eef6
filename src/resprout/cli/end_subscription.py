"""`resprout end-subscription`: a durable subscription is over, for everybody."""

import click

from resprout.cli.console import tell
from resprout.cli.loop import run_loop
from resprout.cli.server import Access, access_arguments, connected
from resprout.core.names import check_name


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
