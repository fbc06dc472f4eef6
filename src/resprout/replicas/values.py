"""What replicas agree on, and under which number."""

from typing import Final

import msgspec

MEMBERS_MAX: Final = 64
"""Of one configuration: every decision is sent to all of them."""
ROUND_LEAP_MAX: Final = 1 << 32
"""By so much the round of a ballot may be ahead of the one known before: a liar must not use up the numbers."""


class Ballot(msgspec.Struct, frozen=True, array_like=True, order=True):
    """Who may propose. Higher ones win; no two replicas ever use the same."""

    round: int = 0
    leader: str = ""


NO_BALLOT: Final = Ballot()


class SlotEntry(msgspec.Struct, frozen=True, array_like=True):
    """What stands in a slot: a command of the owner; a new configuration; or, without either, nothing."""

    command: bytes = b""
    members: tuple[str, ...] = ()
    """The configuration from the next slot on; empty: it stays."""

    @property
    def is_configuration(self) -> bool:
        return bool(self.members)


NOTHING: Final = SlotEntry()
"""Fills a slot that a leader before may have left open."""


class AcceptedEntry(msgspec.Struct, frozen=True, array_like=True):
    """An entry that a replica has accepted in a slot, and in which ballot."""

    slot: int
    ballot: Ballot
    entry: SlotEntry


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    """The state of the owner after this slot, and the configuration that follows it."""

    slot: int = 0
    members: tuple[str, ...] = ()
    state: bytes = b""


def is_majority(members: tuple[str, ...], of: dict[str, None] | set[str] | frozenset[str]) -> bool:
    """More than half of the configuration are among these."""
    return 2 * sum(member in of for member in members) > len(members)
