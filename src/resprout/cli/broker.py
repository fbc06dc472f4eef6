"""`resprout broker`: one broker, until it is told to stop."""

import os
from pathlib import Path

import click

from resprout.cli.loop import run_loop, stopped_by_signals, unless_stopped
from resprout.cli.settings import Settings, read_settings
from resprout.cli.voice import Voice
from resprout.net.broker import BrokerSpec, serve
from resprout.net.incarnation import new_incarnation
from resprout.net.lifeline import leave_group, watch_stdin
from resprout.net.parent import find_parent


@click.command()
@click.option("--name", metavar="NAME", help="What the broker is called in the whole network.")
@click.option("--listen", metavar="HOST:PORT", help="Where it listens; port 0 takes a free one. [localhost:7450]")
@click.option("--parent", metavar="HOST:PORT", help="Its parent in the tree; without one it is the root.")
@click.option("--stack", metavar="NAME", help="The protocol that it runs. [resprout]")
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="Read all of this from a TOML file.")
@click.option(
    "--set", "overrides", multiple=True, metavar="OPTION=VALUE",
    help="Set an option of the stack, e.g. faults_tolerated=2, or of the links, e.g. links.window_bytes=65536.",
)  # fmt: skip
@click.option("--delay", "delays", multiple=True, metavar="PEER=TIME", help="Emulate a latency, e.g. b0=115ms.")
@click.option("--incarnation", type=click.IntRange(1), metavar="N", help="The number of this life. [from the clock]")
@click.option(
    "--announce", type=click.Path(path_type=Path), metavar="FILE", help="When ready, write name, address, pid."
)
@click.option("--json", "as_json", is_flag=True, help="Print the address, and later notes, as JSON, one object a line.")
@click.option("--stop-with-stdin", is_flag=True, help="Stop when standard input ends: for programs that start brokers.")
def broker(
    name: str | None,
    listen: str | None,
    parent: str | None,
    stack: str | None,
    config: Path | None,
    overrides: tuple[str, ...],
    delays: tuple[str, ...],
    incarnation: int | None,
    announce: Path | None,
    as_json: bool,
    stop_with_stdin: bool,
) -> int:
    """Run one broker of a tree until Ctrl-C or SIGTERM.

    It prints where it listens when it can be connected to. A parent that is not up yet is waited for.

    \b
        resprout broker --name b0 --listen :7450
        resprout broker --name b1 --listen :7451 --parent localhost:7450

    The same from a file, b1.toml, with `resprout broker --config b1.toml`:

    \b
        name = "b1"
        listen = ":7451"
        parent = "localhost:7450"
        [options]
        faults_tolerated = 2
    """
    given = {"name": name, "listen": listen, "parent": parent, "stack": stack}
    settings = read_settings(config, given, overrides, delays)
    voice = Voice(settings.name, announce, as_json)
    return run_loop(_live(settings, incarnation, voice, stop_with_stdin))


async def _live(settings: Settings, incarnation: int | None, voice: Voice, stop_with_stdin: bool) -> int:
    stop = stopped_by_signals()
    if stop_with_stdin:
        leave_group()
        watch_stdin(stop)
    spec = await unless_stopped(_spec(settings, incarnation, voice), stop)
    if spec is None:
        return 0
    host, address = await serve(spec, settings.stack, settings.options, settings.links, voice.note)
    try:
        voice.announce(address, os.getpid(), spec.incarnation)
        await stop.wait()
    finally:
        await host.close(f"{settings.name} stops")
    return 0


async def _spec(settings: Settings, incarnation: int | None, voice: Voice) -> BrokerSpec:
    life = incarnation or new_incarnation()
    if settings.parent is None:
        return BrokerSpec(settings.name, life, settings.listen, delays_s=settings.delays_s)
    parent = await find_parent(settings.parent, settings.name, voice.say)
    if incarnation is None:
        life = max(life, parent.met + 1)  # whatever the clock says
    peers = {parent.name: settings.parent}
    return BrokerSpec(settings.name, life, settings.listen, parent.name, peers, settings.delays_s)
