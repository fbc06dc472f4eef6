"""Commands that run a scenario with real processes on this machine.

`resprout up`: its brokers, until told to stop. `resprout run`: all of it, with clients, workloads and faults.

`Story` tells what happens to a network while it runs, in plain lines. It is made of the
rows that the trace has anyway: faults, and the notes of brokers about their repairs. It follows the tree from the
scenario's through every repair, as far as notes tell it, to say who takes over whom.
"""

import contextlib
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click
import msgspec

from resprout.cli.arguments import LocalPath
from resprout.cli.console import progress_line, table_lines, tell, tell_json, tell_lines
from resprout.cli.faults import obeying
from resprout.cli.loop import run_loop, stopped_by_signals, unless_stopped
from resprout.cli.scenarios import RunOutcome, choose_scenario, say, scenario_arguments
from resprout.core.errors import ResproutError
from resprout.net.address import DEFAULT_PORT, Address, is_loopback
from resprout.net.door import Door, what_is_open
from resprout.net.event_loop import now_us
from resprout.net.identity.proofs import read_network_key, write_network_key
from resprout.net.mqtt.settings import MQTT_PORT
from resprout.net.orders import SaidNote
from resprout.net.process import BrokerProcess, ProcessError
from resprout.net.run.coordinator import OnProgress, ProcessRunResult, RealRun
from resprout.net.run.exchange import ClientsProgress
from resprout.net.tree import LocalTree, delays_of
from resprout.scenario.load import load_scenario
from resprout.scenario.model import BrokerSpec, Scenario
from resprout.scenario.write import describe, run_info
from resprout.stacks.status import Absent
from resprout.trace import kinds
from resprout.trace.schema import Row
from resprout.trace.store import LiveFolder, TraceWriter
from resprout.trace.summary import summarize

SMALL_TREE: Final = Scenario(
    name="a small tree", brokers=(BrokerSpec("b0"), BrokerSpec("b1", "b0"), BrokerSpec("b2", "b0"))
)

_DOWN: Final = (kinds.CRASH, kinds.FREEZE, kinds.LEAVE, kinds.PARTITION, kinds.CUT, "fenced", "moved")


class StartedBroker(msgspec.Struct, frozen=True):
    """One broker that runs."""

    broker: str
    parent: str | None
    address: str
    pid: int
    mqtt: str | Absent = msgspec.UNSET
    """Where it listens for MQTT clients."""


@click.command()
@click.argument("scenario", type=LocalPath(), required=False)
@click.option(
    "--set", "overrides", multiple=True, metavar="PATH=VALUE",
    help="Change one value of the scenario, e.g. options.faults_tolerated=0.",
)  # fmt: skip
@click.option("--emulate-latency", is_flag=True, help="Add the latencies of the scenario's links.")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="HOST", help="Address of the brokers.")
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=DEFAULT_PORT, show_default=True, metavar="N",
    help="Port of the first broker; the others take the ports after it. 0: free ports.",
)  # fmt: skip
@click.option(
    "--data", type=LocalPath(), metavar="DIR",
    help="Folder for data that must survive the processes; each broker has a folder in it.",
)  # fmt: skip
@click.option("--tls", type=LocalPath(), metavar="DIR", help="Speak TLS, with the certificates in this folder.")
@click.option("--rules", type=LocalPath(), metavar="FILE", help="Known clients and their permissions.")
@click.option(
    "--network-key", type=LocalPath(), metavar="FILE",
    help="The key by which brokers prove themselves, so that others can join. [a random key]",
)  # fmt: skip
@click.option(
    "--insecure", is_flag=True, help="Accept every connection, also from other machines; no warning on loopback."
)
@click.option(
    "--http-port", type=click.IntRange(0, 65_535), metavar="N",
    help="Port of the first broker's live page and metrics; the others take the ports after it. 0: free ports.",
)  # fmt: skip
@click.option("--mqtt", is_flag=True, help="Listen for MQTT clients: the first broker at port 1883.")
@click.option(
    "--mqtt-port", type=click.IntRange(1, 65_535), metavar="N",
    help="Listen for MQTT clients: the first broker at this port, the others at the ports after it.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the addresses as one JSON list.")
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
    mqtt: bool,
    mqtt_port: int | None,
    as_json: bool,
) -> int:
    """Run the brokers of SCENARIO, each in a process of its own, until Ctrl-C. Without one: a tree of three brokers.

    \b
        resprout up
        resprout up bank --emulate-latency

    Clients, workloads and faults of the scenario are left out; bandwidths are not emulated. When a broker dies the
    others continue; standard error shows how they repair the tree. The exit status is 1 when no broker is left.
    """
    if scenario is not None:
        chosen = load_scenario(scenario, overrides)
    elif overrides:
        raise click.UsageError("--set changes a scenario: name one")
    else:
        chosen = SMALL_TREE
    mqtt_port = mqtt_port or (MQTT_PORT if mqtt else None)
    for option, first in (("--port", port), ("--http-port", http_port or 0), ("--mqtt-port", mqtt_port or 0)):
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
            network_key=network_key, insecure=insecure or is_local, http_port=http_port, mqtt_port=mqtt_port,
            on_line=_pass_on, on_note=teller.hear,
        )  # fmt: skip
        return run_loop(_run_tree(tree, teller, as_json, warning))


async def _run_tree(tree: LocalTree, teller: "_Teller", as_json: bool, warning: str) -> int:
    stop = stopped_by_signals()
    try:
        if await unless_stopped(_started(tree), stop) is None:
            return 0
        teller.begin()
        _print(standing(tree), as_json)
        if warning:
            _complain(f"resprout: {warning}")
        async with obeying(tree, teller.tell, _complain):
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

    def tell(self, broker: str, kind: str) -> None:
        """Execute a fault that a command asked for."""
        if self._start_us is not None:
            self._story.hear(now_us() - self._start_us, broker, kind, None)

    def hear(self, process: BrokerProcess, note: SaidNote) -> None:
        if self._start_us is not None and note.time_us > self._start_us and not process.deliberate:
            detail = note.columns.get("detail")
            self._story.hear(note.time_us - self._start_us, process.name, note.kind, detail)


async def _started(tree: LocalTree) -> bool:
    await tree.start()
    return True


def standing(tree: LocalTree) -> list[StartedBroker]:
    parents = {broker.name: broker.parent for broker in tree.scenario.brokers}
    return [
        StartedBroker(
            p.name, parents.get(p.name), str(p.address), p.pid,
            str(p.plan.mqtt) if p.plan.mqtt is not None else msgspec.UNSET,
        )
        for p in tree.processes
    ]  # fmt: skip


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
    if any(b.mqtt for b in brokers):
        rows: list[tuple[str, ...]] = [("broker", "parent", "address", "mqtt", "pid")]
        rows += [(b.broker, b.parent or "-", b.address, str(b.mqtt), str(b.pid)) for b in brokers]
        return table_lines(rows)
    rows = [("broker", "parent", "address", "pid")]
    rows += [(b.broker, b.parent or "-", b.address, str(b.pid)) for b in brokers]
    return table_lines(rows)


class StoryHappening(msgspec.Struct, frozen=True):
    """As a row of the trace says it."""

    time_us: int
    node: str
    kind: str
    detail: str | None


class Story:
    """`say` is given the lines; `pid_of` knows the process of a node, if there is one."""

    def __init__(
        self, scenario: Scenario, say: Callable[[str], None], pid_of: Callable[[str], int | None] = lambda name: None
    ) -> None:
        self._say = say
        self._pid_of = pid_of
        self._parents = {broker.name: broker.parent for broker in scenario.brokers}
        self._has_tree = len(self._parents) == 1 or any(self._parents.values())
        """Otherwise brokers stand on a ring, or next to each other without a shape."""
        self._delays_us = delays_of(scenario)
        self._down_us: dict[str, int] = {}
        """When each broker was last heard to be in trouble."""
        self._repairs: dict[str, dict[str, int]] = {}
        """By who leads it, and by dead broker: when its repair began."""
        self._tellers: dict[str, Callable[[StoryHappening], str | None]] = {
            kinds.CRASH: self._crashed,
            kinds.RECOVER: lambda it: f"{it.node} is started again{_how(it.detail)}",
            kinds.FREEZE: lambda it: f"{it.node} is frozen ({self._signal('SIGSTOP', it.node)})",
            kinds.UNFREEZE: lambda it: f"{it.node} goes on ({self._signal('SIGCONT', it.node)})",
            kinds.CUT: lambda it: f"nothing passes between {it.node} and {it.detail} any more",
            kinds.PARTITION: lambda it: f"{it.node} is on the far side of a cut",
            kinds.HEAL: lambda it: (
                "every cut is healed" if it.detail is None else f"{it.node} and {it.detail} reach each other again"
            ),
            kinds.JOIN: lambda it: f"{it.node} is started, to join",
            kinds.LEAVE: lambda it: f"{it.node} is asked to leave",
            kinds.REPAIR_BEGIN: self._repair_begins,
            kinds.REPAIR_END: self._repair_ends,
            "joined": self._joined,
            kinds.NOTE: lambda it: f"{it.node}: {it.detail}",
        }

    def hear(self, time_us: int, node: str, kind: str, detail: str | None) -> None:
        """What is not worth a line is left out."""
        if kind in _DOWN:
            self._down_us[node] = time_us
        teller = self._tellers.get(kind)
        text = teller(StoryHappening(time_us, node, kind, detail)) if teller is not None else None
        if text is not None:
            self._say(f"{time_us / 1e6:5.1f} s  {text}")

    # -- faults --------------------------------------------------------------------------------------------------------

    def _crashed(self, it: StoryHappening) -> str:
        if it.detail == "host":
            return f"the machine of {it.node} falls silent ({self._signal('SIGSTOP', it.node)})"
        return f"{it.node} is killed ({self._signal('SIGKILL', it.node)})"

    def _signal(self, name: str, node: str) -> str:
        pid = self._pid_of(node)
        return f"{name}, pid {pid}" if pid is not None else name

    # -- repairs -------------------------------------------------------------------------------------------------------

    def _repair_begins(self, it: StoryHappening) -> str | None:
        """Told by the one who leads it; the others begin when it asks them."""
        dead = (it.detail or "").split()
        if not self._leads(it.node, dead):
            return None
        begun = self._repairs.setdefault(it.node, {})
        for name in dead:
            begun.setdefault(name, it.time_us)
        orphans = [name for name in self._members(dead) if self._parents.get(name) in dead and name != it.node]
        if not self._has_tree:
            return f"repair begins: {it.node} does without {_listed(dead)}"
        work = f"takes over {_listed(orphans)}" if orphans else f"removes {_listed(dead)} from the tree"
        return f"repair begins: {it.node} {work}"

    def _repair_ends(self, it: StoryHappening) -> str | None:
        dead = (it.detail or "").split()
        open_ones = self._repairs.get(it.node, {})
        begun_us = [open_ones.pop(name) for name in dead if name in open_ones]
        if not begun_us:
            return None
        began_us = min(begun_us)
        members = [name for name in self._members(dead) if name != it.node]
        down_us = min((self._down_us[name] for name in dead if name in self._down_us), default=began_us)
        self._rewire(dead, it.node)
        took_us = it.time_us - began_us
        trip_us = 2 * max((self._delays_us.get(it.node, {}).get(name, 0) for name in members), default=0)
        trips = f"{took_us / trip_us:.1f} round trips" if trip_us else f"{took_us / 1e3:.1f} ms"
        detection_s = max(0, began_us - down_us) / 1e6
        whole_s = (it.time_us - down_us) / 1e6
        return f"{_listed(dead)} repaired in {whole_s:.2f} s: detection {detection_s:.2f} s + {trips}"

    def _leads(self, node: str, dead: Collection[str]) -> bool:
        """The parent of the topmost one; for a root, the first who says so."""
        above = [self._parents.get(name) for name in dead if self._parents.get(name) not in dead]
        others = (name for leader, names in self._repairs.items() if leader != node for name in names)
        return node in above or (None in above and not any(name in dead for name in others))

    def _members(self, dead: Collection[str]) -> list[str]:
        """The live neighbours of a set of dead brokers."""
        above = {self._parents.get(name) for name in dead}
        return [
            name for name, parent in self._parents.items() if name not in dead and (parent in dead or name in above)
        ]

    def _rewire(self, dead: Sequence[str], centre: str) -> None:
        """The centre keeps its own parent, unless that is dead: then the centre is the root."""
        if self._parents.get(centre) in dead:
            above = next((self._parents.get(name) for name in dead if self._parents.get(name) not in dead), None)
            self._parents[centre] = above if above != centre else None
        for name, parent in self._parents.items():
            if parent in dead and name != centre:
                self._parents[name] = centre
        for name in dead:
            self._parents.pop(name, None)

    def _joined(self, it: StoryHappening) -> str | None:
        """That the scenario's tree comes to stand is no news."""
        parent = (it.detail or "").partition(" ")[0]
        if not self._has_tree:
            return f"{it.node} has joined, next to {parent}" if parent else None
        if it.node in self._parents and self._parents[it.node] == parent:
            return None
        self._parents[it.node] = parent
        return f"{it.node} has joined below {parent}"


def _listed(names: Sequence[str] | Mapping[str, object]) -> str:
    """b1, b2 and b3."""
    *most, last = names or ("no broker",)
    return f"{', '.join(most)} and {last}" if most else last


def _how(recovery: str | None) -> str:
    """As the detail of a `recover` says it."""
    said = recovery or ""
    disk = " with an empty disk" if kinds.EMPTY_DISK in said else ""
    return disk + (f", and {kinds.ANEW}" if kinds.ANEW in said else "")


ENDS = ("quiescent", "timeout")


@click.command()
@scenario_arguments
@click.option(
    "--live",
    "live_folder",
    type=LocalPath(),
    metavar="FOLDER",
    help="Write the rows into this empty folder as they happen, for `resprout watch`.",
)
@click.option("--tls", type=LocalPath(), metavar="DIR", help="Speak TLS, with the certificates in this folder.")
def run(
    scenario: Path | None,
    draw: int | None,
    folder: Path | None,
    stack: str | None,
    seed: int | None,
    overrides: tuple[str, ...],
    as_json: bool,
    live_folder: Path | None,
    tls: Path | None,
) -> int:
    """Run SCENARIO with real processes over TCP on this machine, in real time.

    Each broker is a process, and so is each client (16 processes at most: then several clients share one). Latencies
    and cuts are emulated, bandwidths are not; crashes and freezes are signals. Faults and repairs are told as they
    happen. Exit status 1 when the run did not come to rest before its time limit, or when a process died that no
    fault had killed.
    """
    chosen = choose_scenario(scenario, draw, stack, seed, overrides)
    if draw is not None and not as_json:
        tell_lines(describe(chosen).split("\n"))
    writer = TraceWriter(folder) if folder is not None else None
    live = LiveFolder(live_folder) if live_folder is not None else None
    result, trouble = run_loop(_run_scenario(chosen, not as_json, live, tls))
    if result is None:
        return 130
    if writer is not None:
        writer.write(result.rows)
        writer.finish(run_info(chosen, result.ended))
    if result.ended not in ENDS:
        raise ProcessError(result.ended)
    if trouble is not None:
        raise trouble
    say(RunOutcome(chosen, result.ended, result.digest, folder, summarize(result.rows), "real"), as_json)
    return 0 if result.ended == "quiescent" else 1


async def _run_scenario(
    scenario: Scenario, tells: bool, live: LiveFolder | None, tls: Path | None
) -> tuple[ProcessRunResult | None, ResproutError | None]:
    """The result, unless it was interrupted; and what is wrong with the live rows."""
    stop = stopped_by_signals()
    with _shown(scenario) as on_progress:

        def on_row(row: Row) -> None:
            if tells:
                story.hear(row.time_us, row.node, row.kind, row.detail)

        real = RealRun(scenario, on_progress, on_row=on_row, live=live, tls=tls)
        story = Story(scenario, tell, real.pid_of)
        return await unless_stopped(real.finish(), stop), real.live_trouble


@contextmanager
def _shown(scenario: Scenario) -> Iterator[OnProgress | None]:
    """How far the run is, on a terminal; nothing in a pipe, and nothing is left of it afterwards."""
    with progress_line(f"starting {len(scenario.brokers)} brokers and {len(scenario.clients)} clients") as line:

        def show(time_us: int, progress: ClientsProgress) -> None:
            assert line is not None
            line(
                f"{max(0, time_us) / 1e6:.1f} s: {progress.published} published, {progress.delivered} delivered,"
                f" {progress.pending} under way"
            )

        yield None if line is None else show
