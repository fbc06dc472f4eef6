"""Which answer a client gets that asks to be served: the table of docs/protocol.md, "Clients that lose their broker".

`ROWS` are the rows of that table, in the same order and under the same names; a test compares the two. The first row
whose condition holds gives the answer, so each condition says only what the rows above it leave open.

Not done here: finding out what holds, and acting on the answer (`served_clients`).
"""

from collections.abc import Callable
from enum import Enum, auto
from typing import Final, NamedTuple


class Answer(Enum):
    WAIT = auto()
    """Nothing yet. The client is looked at again with each heartbeat, and when something changes."""
    WAIT_FOR_LOG = auto()
    """Nothing yet. The client is looked at again when what the repair brought is shown."""
    RESUME = auto()
    """`Serving`, and the client's share of what the ghost was shown."""
    SERVE = auto()
    """`Serving`, with `resumed` false if the client had subscriptions."""
    SEND_ON = auto()
    """`GoTo` the broker that was found."""
    SEND_BACK = auto()
    """`GoTo` this broker itself, which means: ask others."""


class Situation(NamedTuple):
    """What holds for one client at one moment. "Its home" is the broker that served it last."""

    is_leaving: bool
    """This broker was asked to leave."""
    has_place: bool
    """This broker has a place in the tree, and no full restart is under way."""
    is_calm: bool
    """No repair runs here."""
    lost_broker: bool
    """The client comes from another broker."""
    has_subscriptions: bool
    """The client brings subscriptions along."""
    is_given_up: bool
    """After a full restart no broker can make good what clients of its home missed."""
    has_ghost: bool
    """This broker has a ghost for the clients of its home."""
    is_shown: bool
    """The ghost was shown all that its repair brought."""
    is_home: bool
    """This broker is its home, in the same life."""
    keeper_failed_lately: bool
    """Another broker says that it has the ghost, and the client asked it in vain less than two heartbeats ago."""
    knows_successor: bool
    """A broker is known that has the ghost or will have it, or that its home itself is heard."""
    is_successor: bool
    """That broker is this one: it is about to repair the lost broker, or cannot tell yet."""
    keeps_ghost: bool
    """That broker has the ghost, as it says itself or as its repair said."""
    insists: bool
    """The client was sent on too often, and wants to be served anyhow."""


class Row(NamedTuple):
    name: str
    """As in the document."""
    holds: Callable[[Situation], bool]
    answer: Answer


ROWS: Final[tuple[Row, ...]] = (
    Row("leaving", lambda s: s.is_leaving and not (s.lost_broker and s.has_ghost), Answer.WAIT),
    Row("no place", lambda s: not s.has_place, Answer.WAIT),
    Row("repair", lambda s: not s.is_calm and (s.lost_broker or s.has_subscriptions), Answer.WAIT),
    Row("first broker", lambda s: not s.lost_broker, Answer.SERVE),
    Row("given up", lambda s: s.is_given_up, Answer.SERVE),
    Row("ghost behind", lambda s: s.has_ghost and not s.is_shown, Answer.WAIT_FOR_LOG),
    Row("ghost", lambda s: s.has_ghost, Answer.RESUME),
    Row("home", lambda s: s.is_home, Answer.SERVE),
    Row("keeper failed", lambda s: s.keeper_failed_lately, Answer.WAIT),
    Row("about to repair", lambda s: s.knows_successor and s.is_successor, Answer.WAIT),
    Row("insists", lambda s: s.insists and not s.keeps_ghost, Answer.SERVE),
    Row("successor", lambda s: s.knows_successor, Answer.SEND_ON),
    Row("nothing to resume", lambda s: not s.has_subscriptions, Answer.SERVE),
    Row("nobody", lambda s: True, Answer.SEND_BACK),
)


def find_row(situation: Situation) -> Row:
    """Return the first row whose condition holds."""
    for row in ROWS:
        if row.holds(situation):
            return row
    raise AssertionError("the last row holds in any case")
