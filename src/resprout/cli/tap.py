"""`resprout tap`: a broker that is added to a tree to keep its events."""

from pathlib import Path

import click

from resprout.cli.arguments import LocalPath
from resprout.cli.broker import broker


@click.command()
@click.argument("filters", nargs=-1, metavar="[FILTER]...")
@click.option("--join", "contacts", multiple=True, required=True, metavar="HOST:PORT", help="Any broker of the tree.")
@click.option("--data", type=LocalPath(), required=True, metavar="DIR", help="The folder that the events are kept in.")
@click.option("--name", default="tap", show_default=True, metavar="NAME", help="What it is called in the network.")
@click.option("--listen", default="localhost:0", show_default=True, metavar="HOST:PORT", help="Where it listens.")
@click.option("--tls", type=LocalPath(), metavar="DIR", help="Speak TLS only, with its certificate in this folder.")
@click.option("--rules", type=LocalPath(), metavar="FILE", help="Which clients are known, and what each may read.")
@click.option("--network-key", type=LocalPath(), metavar="FILE", help="The key of the network, where there is no TLS.")
@click.option(
    "--set", "overrides", multiple=True, metavar="OPTION=VALUE",
    help="As of `resprout broker`; events.retain_bytes=... and events.retain_us=... say how much is kept.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the address, and later notes, as JSON, one object a line.")
@click.pass_context
def tap(
    context: click.Context,
    filters: tuple[str, ...],
    contacts: tuple[str, ...],
    data: Path,
    name: str,
    listen: str,
    tls: Path | None,
    rules: Path | None,
    network_key: Path | None,
    overrides: tuple[str, ...],
    as_json: bool,
) -> int:
    """Add a broker to a tree that keeps the events of topics that match a FILTER, all of them if there is none.

    It joins as a leaf, and is a broker like any other: `resprout read --server` it to see what it keeps. Options that
    all brokers must have alike are given with --set. It is the same as `resprout broker --join --data --keep`. A tree
    with rules, a key or TLS takes it only with the same: whoever reads from it may read what its --rules allow.

    \b
        resprout tap --join localhost:7450 --data /var/lib/resprout/tap 'bank/#'
    """
    result: int = context.invoke(
        broker, name=name, listen=listen, contacts=contacts, data=data, keep=filters or ("#",), overrides=overrides,
        as_json=as_json, tls=tls, rules=rules, network_key=network_key,
    )  # fmt: skip
    return result
