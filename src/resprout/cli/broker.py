"""`resprout broker`: one broker, until it is told to stop.

`resprout tap`: a broker that joins a tree to keep its events.
"""

import asyncio
import os
import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from resprout.cli.arguments import LocalPath
from resprout.cli.loop import collect_garbage_rarely, on_signal, run_loop, stopped_by_signals, unless_stopped
from resprout.cli.settings import DRAIN_SECONDS_MAX, Settings, read_settings
from resprout.cli.voice import LOG_FORMATS, Voice
from resprout.core.contract import Note
from resprout.core.errors import PeerError, ResproutError, UsageError
from resprout.net.address import Address, is_loopback, parse_address
from resprout.net.broker import RunningBroker, serve
from resprout.net.broker_to_run import BrokerToRun
from resprout.net.connection_limits import raise_limit
from resprout.net.data_folder import Remembered, remembered
from resprout.net.door import Door, check_closed, what_is_open
from resprout.net.identity.proofs import read_network_key
from resprout.net.membership import FoundCompany, look_for_company
from resprout.net.orders import LINE_BYTES_MAX, Bar, BrokerOrder, leave_group, read_order, watch_stdin
from resprout.net.sessions import incarnation_max, new_incarnation
from resprout.net.tls import Keyring

if TYPE_CHECKING:
    from resprout.net.http.pages import Pages
    from resprout.net.mqtt.server import MqttServer

FOUND_SECONDS: Final = 5.0
"""How long a broker that is to found a network looks for others first."""
NAMED_MAX: Final = 5
LAST_WORDS_SECONDS: Final = 5.0
"""More than a broker was given to hand over what it has: then it has not even noticed that its time is over."""


@click.command()
@click.option("--name", metavar="NAME", help="Name of the broker, unique in the network.")
@click.option("--listen", metavar="HOST:PORT", help="Where it listens; port 0 takes a free one. [localhost:7450]")
@click.option("--parent", metavar="HOST:PORT", help="Its parent in the tree; the root has none.")
@click.option(
    "--join", "--contact", "contacts", multiple=True, metavar="HOST:PORT",
    help="Another broker to ask for a place when the parent does not answer; may be repeated.",
)  # fmt: skip
@click.option("--site", metavar="NAME", help="Site of the broker, for stacks with replicated sites.")
@click.option(
    "--found", "founds", is_flag=True,
    help="Found a network if the --data folder remembers none and no known broker answers.",
)  # fmt: skip
@click.option(
    "--force-found", is_flag=True,
    help="Found a network without the brokers that the --data folder remembers: only if they never return.",
)  # fmt: skip
@click.option("--advertise", metavar="HOST:PORT", help="Address at which others reach it. [where it listens]")
@click.option("--data", type=LocalPath(), metavar="DIR", help="Folder for data that must survive the process.")
@click.option("--tls", type=LocalPath(), metavar="DIR", help="Speak TLS only, with its certificate in this folder.")
@click.option("--client-certificates", is_flag=True, help="Serve only clients that have a certificate.")
@click.option("--rules", type=LocalPath(), metavar="FILE", help="Known clients and their permissions.")
@click.option(
    "--network-key", type=LocalPath(), metavar="FILE",
    help="Accept only brokers with this key, without TLS (`resprout secret --network FILE`).",
)  # fmt: skip
@click.option(
    "--insecure", is_flag=True,
    help="Accept every connection, also from other machines; on loopback, omit the warning.",
)  # fmt: skip
@click.option(
    "--keep", "keep", multiple=True, metavar="FILTER",
    help="Store events of these topics in the --data folder, for `resprout read`; may be repeated.",
)  # fmt: skip
@click.option(
    "--log", "logs", multiple=True, metavar="NAME=FILTER@BROKERS",
    help="Declare a log, such as bank=bank/#@b0,b1,b2, as all brokers do; may be repeated.",
)  # fmt: skip
@click.option(
    "--roster", "roster", multiple=True, metavar="NAME,site=SITE,parent=NAME,address=HOST:PORT",
    help="Name a broker of a network of sites, as all its brokers do; repeated for each.",
)  # fmt: skip
@click.option("--http", metavar="HOST:PORT", help="Serve a live page, /metrics, /healthz and /readyz there.")
@click.option("--http-open", is_flag=True, help="Serve these to every machine.")
@click.option("--mqtt", metavar="HOST:PORT", help="Listen there for MQTT clients, 3.1.1 and 5.")
@click.option("--mqtt-tls", metavar="HOST:PORT", help="The same with TLS, with the certificate of --tls.")
@click.option("--mqtt-ws", metavar="HOST:PORT", help="The same over WebSocket.")
@click.option("--mqtt-wss", metavar="HOST:PORT", help="The same over WebSocket with TLS.")
@click.option("--stack", metavar="NAME", help="The protocol that it runs. [resprout]")
@click.option("--config", type=LocalPath(), metavar="FILE", help="Read these settings from a TOML file.")
@click.option(
    "--set", "overrides", multiple=True, metavar="OPTION=VALUE",
    help="Set an option: of the stack (faults_tolerated=2), of the links (links.window_bytes=65536), of the journal.",
)  # fmt: skip
@click.option(
    "--delay", "delays", multiple=True, metavar="PEER=TIME", help="Emulate a latency to a peer, e.g. b0=115ms."
)
@click.option("--incarnation", type=click.IntRange(1), metavar="N", help="The number of this life. [from the clock]")
@click.option(
    "--log-format", type=click.Choice(LOG_FORMATS), default=LOG_FORMATS[0], show_default=True,
    help="Format of the log: short, with times and levels, or JSON.",
)  # fmt: skip
@click.option("--announce", type=LocalPath(), metavar="FILE", help="When ready, write name, address, pid.")
@click.option("--json", "as_json", is_flag=True, help="Print the address, and later notes, as JSON, one object a line.")
@click.option(
    "--drain-seconds", type=click.IntRange(0, DRAIN_SECONDS_MAX), metavar="N",
    help="Seconds to hand over messages and clients after SIGTERM; 0: end at once. [30]",
)  # fmt: skip
@click.option("--note-compaction", is_flag=True, hidden=True,
              help="Note each message that a log drops by compaction: for programs that judge runs.")  # fmt: skip
@click.option("--stop-with-stdin", is_flag=True, help="Stop when standard input ends: for programs that start brokers.")
def broker(
    name: str | None,
    listen: str | None,
    parent: str | None,
    contacts: tuple[str, ...],
    site: str | None,
    founds: bool,
    force_found: bool,
    advertise: str | None,
    data: Path | None,
    keep: tuple[str, ...],
    logs: tuple[str, ...],
    roster: tuple[str, ...],
    tls: Path | None,
    client_certificates: bool,
    rules: Path | None,
    network_key: Path | None,
    insecure: bool,
    http: str | None,
    http_open: bool,
    mqtt: str | None,
    mqtt_tls: str | None,
    mqtt_ws: str | None,
    mqtt_wss: str | None,
    stack: str | None,
    config: Path | None,
    overrides: tuple[str, ...],
    delays: tuple[str, ...],
    incarnation: int | None,
    log_format: str,
    announce: Path | None,
    as_json: bool,
    drain_seconds: int | None,
    note_compaction: bool,
    stop_with_stdin: bool,
) -> int:
    """Run one broker of a tree until SIGTERM.

    After SIGTERM the broker hands over its messages and clients, leaves the network and ends. Ctrl-C or a second
    SIGTERM ends it at once. SIGHUP makes it read the files of --tls and --rules again.

    It prints its address when clients can connect. It first looks for the brokers that it knows: --parent, --join, and
    those in its --data folder. It founds a network if it knows none, or with --found (at one broker) if none answers.
    With a --data folder, the same command serves for every later start: the broker joins its network, or, if all
    brokers had stopped, continues it with the others when most are back.

    \b
        resprout broker --name b0 --listen localhost:7450
        resprout broker --name b1 --listen localhost:7451 --parent localhost:7450
        resprout broker --name b2 --listen localhost:7452 --join localhost:7450 --join localhost:7451

    The same from a file, b1.toml, with `resprout broker --config b1.toml`:

    \b
        name = "b1"
        listen = "localhost:7451"
        parent = "localhost:7450"
        [options]
        faults_tolerated = 1
    """
    given = {
        "name": name, "listen": listen, "parent": parent, "advertise": advertise, "stack": stack,
        "site": site, "data": str(data) if data is not None else None,
        "tls": str(tls) if tls is not None else None, "client_certificates": "yes" if client_certificates else None,
        "rules": str(rules) if rules is not None else None, "insecure": "yes" if insecure else None,
        "network_key": str(network_key) if network_key is not None else None,
        "http": http, "http_open": "yes" if http_open else None, "found": "yes" if founds else None,
        "mqtt": mqtt, "mqtt_tls": mqtt_tls, "mqtt_ws": mqtt_ws, "mqtt_wss": mqtt_wss,
    }  # fmt: skip
    voice = Voice(name or "", announce, as_json, log_format)
    try:
        settings = read_settings(config, given, overrides, delays, contacts, keep, drain_seconds, logs, roster)
        voice.name = settings.name
        raise_limit(settings.links.sessions_max + settings.links.greetings_max)
        most = incarnation_max()
        if incarnation is not None and most is not None and incarnation > most:
            raise UsageError(f"--incarnation {incarnation}: no other broker would believe it; at most {most} today")
        return run_loop(_Life(settings, incarnation, voice, stop_with_stdin, force_found, note_compaction).live())
    except ResproutError as error:
        if log_format == LOG_FORMATS[0]:
            raise
        voice.fatal(str(error))
        return 2 if isinstance(error, UsageError) else 1


class _Life:
    """The process of a broker, from its first question to its last word."""

    def __init__(
        self,
        settings: Settings,
        incarnation: int | None,
        voice: Voice,
        stop_with_stdin: bool,
        force_found: bool,
        is_traced: bool = False,
    ) -> None:
        self._is_traced = is_traced
        self._settings = settings
        self._incarnation = incarnation
        self._voice = voice
        self._stop_with_stdin = stop_with_stdin
        self._force_found = force_found
        self._keyring = Keyring(settings.tls, settings.name) if settings.tls is not None else None
        is_closed = False
        for address in (settings.listen, *settings.mqtt.places.values()):
            if not settings.insecure and not is_loopback(address):
                is_closed = True
                check_closed(self._keyring, settings.rules, str(address))
        key = read_network_key(settings.network_key) if settings.network_key is not None else None
        self._door = Door(
            self._keyring, settings.clients_certified, settings.rules, is_closed, limits=settings.limits,
            network_key=key,
        )  # fmt: skip
        self._pages = self._make_pages()
        self._mqtt: MqttServer | None = None
        self._broker: RunningBroker | None = None
        self._stop = asyncio.Event()
        self._leave = asyncio.Event()
        self._barred: tuple[str, ...] = ()

    async def live(self) -> int:
        stop = stopped_by_signals(self._stop)
        on_signal("SIGTERM", self._asked_to_go)
        on_signal("SIGHUP", self._reload)
        if self._stop_with_stdin:
            leave_group()
            watch_stdin(stop, self._hear, LINE_BYTES_MAX)
        try:
            return await self._live(stop)
        finally:
            if self._pages is not None:
                await self._pages.close()

    async def _live(self, stop: asyncio.Event) -> int:
        settings, voice = self._settings, self._voice
        if self._pages is not None and settings.http is not None:
            await self._pages.listen(settings.http)
        self._mqtt = await self._make_mqtt()
        spec = await unless_stopped(self._spec(), stop)
        if spec is None:
            return 0
        serving = serve(
            spec, settings.stack, settings.options, settings.links, voice.note, self._announce,
            self._door,
        )  # fmt: skip
        begun = await unless_stopped(serving, stop)  # on a full disk it takes until there is room
        if begun is None:
            return 0
        broker, _ = begun
        if self._pages is not None:
            self._pages.show(broker)
            voice.note(Note("http", {"detail": self._pages.url}))
        if self._mqtt is not None:
            self._mqtt.begin(broker)
        self._warn_of_door()
        collect_garbage_rarely()
        try:
            if await unless_stopped(self._ends(broker), stop) is None:
                await self._close_mqtt()
                await broker.close(f"{settings.name} stops")
        finally:
            await self._close_mqtt()
            await broker.close()
        return 0

    async def _make_mqtt(self) -> "MqttServer | None":
        """What it serves to MQTT clients, if it is to."""
        settings = self._settings
        if not settings.mqtt.is_wanted:
            return None
        from resprout.net.mqtt.server import MqttServer

        server = MqttServer(settings.mqtt, self._door, self._voice.note, settings.tls)
        await server.take_places()
        return server

    async def _close_mqtt(self) -> None:
        if self._mqtt is not None:
            server, self._mqtt = self._mqtt, None
            await server.close()

    def _make_pages(self) -> "Pages | None":
        """What it serves to browsers and monitors, if it is to. Whoever is not to serve anything needs none of it."""
        settings = self._settings
        if settings.http is None:
            if settings.http_opens:
                raise UsageError("--http-open needs --http HOST:PORT")
            return None
        from resprout.net.http.pages import Pages, check_pages_closed

        check_pages_closed(settings.http, self._door, settings.http_opens)
        return Pages(settings.name, self._door, settings.http_opens)

    def _asked_to_go(self) -> None:
        """Whoever is asked twice, or has nothing to hand over, ends at once."""
        broker = self._broker
        drains = broker is not None and broker.can_leave and self._settings.drain_s > 0
        (self._leave if drains and not self._leave.is_set() else self._stop).set()

    async def _ends(self, broker: RunningBroker) -> bool:
        """Until it has left, by itself or because it was asked to."""
        gone = asyncio.create_task(broker.ended())
        asked = asyncio.create_task(self._leave.wait())
        seconds = self._settings.drain_s
        try:
            await asyncio.wait((gone, asked), return_when=asyncio.FIRST_COMPLETED)
            if not gone.done():
                broker.leave(seconds * 1_000_000)
                await asyncio.wait((gone,), timeout=seconds + LAST_WORDS_SECONDS)
            if not gone.done():
                self._voice.say(f"{broker.name} could not leave in good order within {seconds} s: it stops")
                await broker.close(f"{broker.name} stops")
            else:
                gone.result()
            return True
        finally:
            gone.cancel()
            asked.cancel()

    async def _spec(self) -> BrokerToRun:
        settings = self._settings
        life = self._incarnation or new_incarnation()
        kept = remembered(settings.data)
        members = _members(kept, settings.name)
        given = tuple(address for address in (settings.parent, *settings.contacts) if address is not None)
        company = None
        if kept.memory and not self._force_found:
            self._tell_members(members)
        elif given or members:
            company = await self._company(members)
        founds = self._force_found and company is None
        seeks = bool(kept.memory) and not founds
        above = next((name for name, address in members.items() if address == settings.parent), None)
        company = company or (FoundCompany(above, members, 0) if seeks else FoundCompany(None, {}, 0))
        if self._incarnation is None:
            life = max(life, company.met + 1)  # whatever the clock says
        return BrokerToRun(
            settings.name, life, settings.listen, company.parent, company.peers, settings.delays_s, company.contacts,
            settings.advertise, settings.data, self._barred, settings.site, settings.journal,
            settings.keep, settings.events, kept.memory, founds, given if seeks else (), _force_command(),
            logs=settings.logs, roster=settings.roster, is_traced=self._is_traced,
        )  # fmt: skip

    async def _company(self, members: Mapping[str, Address]) -> FoundCompany | None:
        """Whom this broker joins; None when it founds a network. One that has been in a network never founds another
        one by itself: those it cannot reach may go on without it."""
        settings = self._settings
        founds = self._force_found or (settings.founds and not members)
        if not founds:
            self._tell_members(members)
        return await look_for_company(
            settings.parent, settings.contacts, settings.name, settings.stack.name, self._voice.say,
            tuple(members.values()), FOUND_SECONDS if founds else None, self._keyring, only_placed=self._force_found,
            key=self._door.network_key, has_rules=self._door.has_rules,
            max_payload=settings.stack.max_payload(settings.options),
        )  # fmt: skip

    def _tell_members(self, members: Iterable[str]) -> None:
        me = self._settings.name
        if names := sorted(members):
            self._voice.say(f"{me} was in a network with {_listed(names)}: it looks for them, and founds no other one")

    def _reload(self) -> None:
        """Certificates or rules may have changed. What is wrong is not taken. Without either there is nothing to do,
        and a broker that is asked to (`systemctl reload`) goes on."""
        what = " and ".join(
            word for word, is_there in (("certificates", self._keyring), ("rules", self._door.has_rules)) if is_there
        )
        if not what:
            self._voice.note(
                Note("reload", {"detail": "there is nothing to read again: it has no --tls and no --rules"})
            )
            return
        try:
            self._door.reload()
        except UsageError as error:
            self._voice.note(Note("reload_failed", {"detail": f"{what} are as they were: {error}"}))
        else:
            self._voice.note(Note("reload", {"detail": f"{what} were read again"}))
            self._warn_of_door()

    def _warn_of_door(self) -> None:
        if self._keyring is not None:
            self._warn(self._keyring.warning)
        self._warn(what_is_open(self._door, self._settings.listen, self._settings.insecure))
        pages = self._settings.http
        if pages is not None and not is_loopback(pages):
            if self._settings.http_opens:
                self._warn(f"every machine that reaches {pages} can read its pages (--http-open)")
            elif self._door.has_rules:
                self._warn(f"secrets that are shown to {pages} travel in the open: put something with TLS before it")

    def _warn(self, text: str) -> None:
        if text:
            self._voice.note(Note("note", {"detail": text}))

    def _announce(self, broker: RunningBroker) -> None:
        """Tell that a life of the broker has begun. Orders reach the broker from then on, also while it still starts;
        those that came before are carried out first."""
        self._broker = broker
        broker.bar(self._barred)
        self._voice.announce(broker.address, os.getpid(), broker.incarnation)

    def _hear(self, line: bytes) -> None:
        """What is no order is told to people and otherwise ignored: a broker does not die of it."""
        try:
            self._obey(read_order(line))
        except (PeerError, UsageError) as error:
            self._voice.say(str(error))

    def _obey(self, order: BrokerOrder) -> None:
        if isinstance(order, Bar):
            self._barred = order.peers
            if self._broker is not None:
                self._broker.bar(order.peers)
            return
        places = {name: parse_address(text) for name, text in order.addresses.items()}
        if self._broker is not None:
            self._broker.found(places)


def _force_command() -> str:
    """This command, as an operator types it to go on without the others."""
    return shlex.join(["resprout", *sys.argv[1:], "--force-found"])


def _members(network: Remembered, me: str) -> dict[str, Address]:
    """Those that are worth asking."""
    return {name: parse_address(text) for name, text in network.members.items() if name != me}


def _listed(members: Iterable[str]) -> str:
    names = sorted(members)
    return ", ".join(names[:NAMED_MAX]) + (f" and {len(names) - NAMED_MAX} others" if len(names) > NAMED_MAX else "")


@click.command()
@click.argument("filters", nargs=-1, metavar="[FILTER]...")
@click.option("--join", "contacts", multiple=True, required=True, metavar="HOST:PORT", help="Any broker of the tree.")
@click.option("--data", type=LocalPath(), required=True, metavar="DIR", help="Folder for the events.")
@click.option("--name", default="tap", show_default=True, metavar="NAME", help="Name of the tap in the network.")
@click.option("--listen", default="localhost:0", show_default=True, metavar="HOST:PORT", help="Where it listens.")
@click.option("--tls", type=LocalPath(), metavar="DIR", help="Speak TLS only, with its certificate in this folder.")
@click.option("--rules", type=LocalPath(), metavar="FILE", help="Known clients and their permissions.")
@click.option("--network-key", type=LocalPath(), metavar="FILE", help="The key of the network, where there is no TLS.")
@click.option(
    "--set", "overrides", multiple=True, metavar="OPTION=VALUE",
    help="As for `resprout broker`; events.retain_bytes=... and events.retain_us=... limit the stored events.",
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
    """Add a broker to a tree that stores the events of topics that match a FILTER; without one, all events.

    The tap joins as a leaf. `resprout read --server` prints its events. The tree accepts it only with the same
    --network-key, certificates and --rules, and with the same values of options that all brokers share (--set). It is
    the same as `resprout broker --join --data --keep`.

    \b
        resprout secret --network network.key
        resprout up --network-key network.key
        resprout tap --join localhost:7450 --network-key network.key --data tap --listen localhost:7455 'bank/#'
    """
    result: int = context.invoke(
        broker, name=name, listen=listen, contacts=contacts, data=data, keep=filters or ("#",), overrides=overrides,
        as_json=as_json, tls=tls, rules=rules, network_key=network_key,
    )  # fmt: skip
    return result
