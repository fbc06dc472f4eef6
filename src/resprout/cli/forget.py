"""`resprout forget`: the operator says that brokers will never return."""

import click
import msgspec

from resprout.cli.console import tell, tell_json
from resprout.cli.loop import run_loop
from resprout.cli.server import Access, access_arguments, connected
from resprout.edge.client.forgetting import check_names


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
