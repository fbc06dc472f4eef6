"""`resprout up`: a tree of brokers on this machine, until it is told to stop."""

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click
import msgspec

from resprout.cli.arguments import LocalPath
from resprout.cli.console import tell, tell_json, tell_lines
from resprout.cli.loop import run_loop, stopped_by_signals, unless_stopped
from resprout.cli.story import Story
from resprout.net.address import DEFAULT_PORT, Address, is_loopback
from resprout.net.child import ProcessError
from resprout.net.clock import now_us
from resprout.net.door import Door, what_is_open
from resprout.net.identity.proofs import read_network_key, write_network_key
from resprout.net.orders import SaidNote
from resprout.net.process import BrokerProcess
from resprout.net.tree import LocalTree
from resprout.scenario.load import load_scenario
from resprout.scenario.model import BrokerSpec, Scenario

SMALL_TREE: Final = Scenario(
    name="a small tree", brokers=(BrokerSpec("b0"), BrokerSpec("b1", "b0"), BrokerSpec("b2", "b0"))
)


class StartedBroker(msgspec.Struct, frozen=True):
    """One broker that runs."""

    broker: str
    parent: str | None
    address: str
    pid: int


@click.command()
@click.argument("scenario", type=LocalPath(), required=False)
@click.option(
    "--set", "overrides", multiple=True, metavar="PATH=VALUE",
    help="Change one value of the scenario, e.g. options.faults_tolerated=0.",
)  # fmt: skip
@click.option("--emulate-latency", is_flag=True, help="Add the latencies of the scenario's links.")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="HOST", help="Where the brokers listen.")
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=DEFAULT_PORT, show_default=True, metavar="N",
    help="The first broker listens here, the next on the next; 0 takes free ones.",
)  # fmt: skip
@click.option(
    "--data", type=LocalPath(), metavar="DIR",
    help="A folder for what must survive the brokers' processes: one in it for each.",
)  # fmt: skip
@click.option("--tls", type=LocalPath(), metavar="DIR", help="Speak TLS, with the certificates in this folder.")
@click.option("--rules", type=LocalPath(), metavar="FILE", help="Which clients are known, and what each may do.")
@click.option(
    "--network-key", type=LocalPath(), metavar="FILE",
    help="Brokers prove themselves by this key, so that more of them can join. [a key that nobody else has]",
)  # fmt: skip
@click.option(
    "--insecure", is_flag=True, help="Let everybody connect, though others can reach --host; no warning on loopback."
)
@click.option(
    "--http-port", type=click.IntRange(0, 65_535), metavar="N",
    help="The first broker serves a live page and metrics here, the next on the next; 0 takes free ones.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print where to connect as one JSON list.")
def up(
    scenario: Path | None,
    overrides: tuple[str, ...],
    emulate_latency: bool,
    host: str,
    port: int,
    data: Path | None,
    tls: Path | None,
    rules: Path | None,
    network_key: Path | None,
    insecure: bool,
    http_port: int | None,
    as_json: bool,
) -> int:
    """Run the brokers of SCENARIO, each in a process of its own, until Ctrl-C. Without one: a tree of three brokers.

    \b
        resprout up
        resprout up bank --emulate-latency

    Clients, workloads and faults of the scenario are left out; bandwidths are not emulated. When a broker dies the
    others go on, and what they do about it is told on standard error. The exit status is 1 when none is left.
    """
    if scenario is not None:
        chosen = load_scenario(scenario, overrides)
    elif overrides:
        raise click.UsageError("--set changes a scenario: name one")
    else:
        chosen = SMALL_TREE
    for option, first in (("--port", port), ("--http-port", http_port or 0)):
        if first and first + len(chosen.brokers) > 65_536:
            raise click.UsageError(f"{option} {first}: {len(chosen.brokers)} brokers need as many ports from there")
    teller = _Teller(chosen)
    is_local = is_loopback(Address(host, 0))
    with TemporaryDirectory(prefix="resprout-up-", ignore_cleanup_errors=True) as folder:
        warning = ""
        if tls is None:
            network_key = network_key or write_network_key(Path(folder) / "network.key")
            door = Door(rules=rules, network_key=read_network_key(network_key))
            warning = what_is_open(door, Address(host, 0), insecure) if is_local else ""  # others say so themselves
        tree = LocalTree(
            chosen, emulate_latency=emulate_latency, host=host, port=port, data=data, tls=tls, rules=rules,
            network_key=network_key, insecure=insecure or is_local, http_port=http_port, on_line=_pass_on,
            on_note=teller.hear,
        )  # fmt: skip
        return run_loop(_run(tree, teller, as_json, warning))


async def _run(tree: LocalTree, teller: "_Teller", as_json: bool, warning: str) -> int:
    stop = stopped_by_signals()
    try:
        if await unless_stopped(_started(tree), stop) is None:
            return 0
        teller.begin()
        _print(standing(tree), as_json)
        if warning:
            _complain(f"resprout: {warning}")
        while (fallen := await unless_stopped(tree.unexpected_end(), stop)) is not None:
            if not any(process.running for process in tree.processes):
                raise ProcessError(f"{fallen.epitaph}; none is left")
            _complain(f"resprout: {fallen.epitaph}; the others go on")
        return 0
    finally:
        await tree.stop()


class _Teller:
    """Tells of repairs while the tree stands: how it came to stand, and how it is stopped, is no news."""

    def __init__(self, scenario: Scenario) -> None:
        self._story = Story(scenario, _complain)
        self._start_us: int | None = None

    def begin(self) -> None:
        self._start_us = now_us()

    def hear(self, process: BrokerProcess, note: SaidNote) -> None:
        if self._start_us is not None and note.time_us > self._start_us and not process.deliberate:
            detail = note.columns.get("detail")
            self._story.hear(note.time_us - self._start_us, process.name, note.kind, detail)


async def _started(tree: LocalTree) -> bool:
    await tree.start()
    return True


def standing(tree: LocalTree) -> list[StartedBroker]:
    parents = {broker.name: broker.parent for broker in tree.scenario.brokers}
    return [StartedBroker(p.name, parents.get(p.name), str(p.address), p.pid) for p in tree.processes]


def _pass_on(process: BrokerProcess, line: str) -> None:
    """What a broker says to people while it runs; what it says when it cannot start becomes this command's error."""
    if process.listening and not process.deliberate:
        _complain(line)


def _complain(line: str) -> None:
    with contextlib.suppress(OSError):
        tell(line, err=True)


def _print(brokers: Sequence[StartedBroker], as_json: bool) -> None:
    if as_json:
        tell_json(brokers)
    else:
        tell_lines(_table(brokers))
        if sys.stderr.isatty():
            tell("Ctrl-C stops them.", err=True)
    sys.stdout.flush()


def _table(brokers: Sequence[StartedBroker]) -> list[str]:
    rows = [("broker", "parent", "address", "pid")]
    rows += [(b.broker, b.parent or "-", b.address, str(b.pid)) for b in brokers]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
