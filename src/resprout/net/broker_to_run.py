"""What is said of a broker that is to run, besides its stack."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from resprout.journal.interface import JournalOptions, WhenDiskFull
from resprout.logs.declaration import LogDeclaration
from resprout.net.address import Address
from resprout.stacks.stack import RosterEntry

EVENT_OPTIONS: Final = JournalOptions(retain_bytes=1 << 30, min_free_bytes=128 << 20, when_disk_full=WhenDiskFull.GAP)
"""Events are retained for readers: as many as fit in a gigabyte. They are optional, so they stop before the records of
the broker itself, and hold nobody."""


class BrokerToRun(msgspec.Struct, frozen=True):
    """One broker to run."""

    name: str
    incarnation: int
    """Of its first life here; a data folder that has seen later ones raises it."""
    listen: Address
    parent: str | None = None
    peers: Mapping[str, Address] = {}
    """Where its peers listen, its parent above all."""
    delays_s: Mapping[str, float] = {}
    """Emulated one-way latencies, by peer."""
    contacts: tuple[str, ...] = ()
    """Peers that may be asked for a place when the parent is not there."""
    advertise: Address | None = None
    """Where others reach it; None: where it listens."""
    data: Path | None = None
    """The folder for what must survive the process; None: nothing can be persisted."""
    barred: tuple[str, ...] = ()
    """An emulated cut from the beginning: peers that cannot be reached."""
    site: str = ""
    """The group of brokers that replicate each other; empty where there are no groups."""
    journal: JournalOptions = JournalOptions()
    """Of what is kept in the folder."""
    keep: tuple[str, ...] = ()
    """Filters of the events that are kept there, for whoever reads them later."""
    events: JournalOptions = EVENT_OPTIONS
    """Of these."""
    memory: bytes = b""
    """What the last process has left in the folder for this one."""
    founds: bool = False
    """It founds a network, whatever it remembers."""
    seek: tuple[Address, ...] = ()
    """Where somebody may listen who knows the network that it remembers."""
    force: str = ""
    """What to type when the others of that network never return."""
    metered: bool = True
    """Publications are counted, for those who ask."""
    logs: tuple[LogDeclaration, ...] = ()
    """All logs of the network, whichever brokers keep them."""
    roster: tuple[RosterEntry, ...] = ()
    """All brokers of the network, where they form sites."""
    is_traced: bool = False
    """It notes each message that a log drops by compaction."""
