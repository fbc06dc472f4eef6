"""A broker to start in a process of its own, as the words of its command line."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

import resprout
from resprout.net.address import Address

LOOPBACK: Final = Address("127.0.0.1", 0)


class BrokerPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One broker to start."""

    name: str
    listen: Address = LOOPBACK
    parent: Address | None = None
    stack: str = "resprout"
    incarnation: int | None = None
    """None: the process takes one from the clock."""
    options: Mapping[str, str | int | float | bool] = {}
    """Of the stack."""
    links: Mapping[str, int] = {}
    """Of the links, see `LinkOptions`."""
    journal: Mapping[str, str | int] = {}
    """Of what is kept in the folder, see `JournalOptions`."""
    delays_us: Mapping[str, int] = {}
    """Emulated one-way latencies, by peer."""
    site: str = ""
    """The group of brokers that replicate each other, if there are such."""
    contacts: tuple[Address, ...] = ()
    """Brokers to ask for a place when the parent is not there."""
    data: Path | None = None
    """The folder for what must survive the process."""
    keep: tuple[str, ...] = ()
    """Filters of the events that it keeps there."""
    tls: Path | None = None
    """The folder with its certificates; None: it speaks without TLS."""
    rules: Path | None = None
    """The file of who is known; None: there are no rules."""
    network_key: Path | None = None
    """The file with the key by which brokers prove themselves; None: there is none."""
    insecure: bool = False
    """It lets in whoever comes, wherever it listens."""
    founds: bool = False
    """It begins a network if its folder remembers none, and nobody that it knows answers."""
    forces: bool = False
    """It begins a network if nobody that it knows has a place in one, whatever its folder remembers."""
    http: Address | None = None
    """Where it serves its page and metrics; None: nowhere."""

    def command(self) -> list[str]:
        """The words of the command line. `-P`: the folder that the user happens to be in may hold a `random.py`."""
        return [sys.executable, "-P", "-m", "resprout", *self.arguments()]

    def arguments(self) -> list[str]:
        """Of the command `resprout`."""
        words = ["broker", "--name", self.name, "--listen", str(self.listen), "--stack", self.stack]
        if self.parent is not None:
            words += ["--parent", str(self.parent)]
        if self.site:
            words += ["--site", self.site]
        for contact in self.contacts:
            words += ["--contact", str(contact)]
        if self.founds:
            words.append("--found")
        if self.forces:
            words.append("--force-found")
        if self.data is not None:
            words += ["--data", str(self.data)]
        for topic_filter in self.keep:
            words += ["--keep", topic_filter]
        if self.tls is not None:
            words += ["--tls", str(self.tls)]
        if self.rules is not None:
            words += ["--rules", str(self.rules)]
        if self.network_key is not None:
            words += ["--network-key", str(self.network_key)]
        if self.insecure:
            words.append("--insecure")
        if self.http is not None:
            words += ["--http", str(self.http)]
        if self.incarnation is not None:
            words += ["--incarnation", str(self.incarnation)]
        for table, values in (("options", self.options), ("links", self.links), ("journal", self.journal)):
            for key, value in values.items():
                words += ["--set", f"{table}.{key}={msgspec.json.encode(value).decode()}"]
        for peer, us in self.delays_us.items():
            words += ["--delay", f"{peer}={us}us"]
        return [*words, "--json", "--stop-with-stdin"]


def environment() -> dict[str, str]:
    """The same package for the child as for this process, installed or not."""
    paths = [str(Path(resprout.__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}
