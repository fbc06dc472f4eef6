"""Clients that lost their broker: which broker looks after them, and how one that asks to be served is answered.

A broker *looks after* the clients of a lost broker if it has the ghost for them; it is their *keeper*. The *successor*
of a lost broker is its keeper, or the broker that will be. `LostBrokers` finds both, as far as this broker has heard.

`ROWS` are the rows of the table in docs/protocol.md, "Clients that lose their broker", in the same order and under the
same names; a test compares the two. The first row whose condition holds gives the answer, so each condition says only
what the rows above it leave open. `served_clients` finds out what holds, and acts on the answer.
"""

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

from resprout.edge.broker.ghosts import home_of
from resprout.edge.messages import Attend
from resprout.order.link import Link
from resprout.overlay.messages import Life
from resprout.stacks.peers import Peers
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.messages import NOBODY, Keeper

SUCCEEDED_MAX: Final = 4_096
"""Dead brokers whose successors are remembered; those heard of longest ago are forgotten first."""


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


class FoundSuccessor(NamedTuple):
    """Where a client that lost its broker should go, as far as it is known here."""

    name: str | None
    """This broker itself while that is not decided yet; None when nobody looks after the client."""
    keeps_ghost: bool = False
    """Whether that broker has the ghost, as it says itself or as its repair said. Then it is worth asking for as long
    as ghosts are kept."""
    keeper_failed: bool = False
    """Whether a broker says that it has the ghost, and the client has asked it in vain."""


class LostBrokers:
    """Finds the broker that looks after the clients of a lost broker."""

    def __init__(self, life: BrokerLife, links: Mapping[str, Link], peers: Peers) -> None:
        self._life = life
        self._links = links
        self._peers = peers
        self._succeeded_by: dict[str, tuple[str, int]] = {}
        """By name of a dead broker: the broker that has its ghost, as its repair said, and since when."""
        self.began_us = 0
        """When this life of the broker began."""
        self.kept_by: dict[Life, str] = {}
        """After a full restart, until `kept_until_us`: by former life, the broker that looks after its clients;
        `NOBODY` where no broker can."""
        self.kept_until_us = 0

    def succeeded(self, dead: tuple[str, ...], successor: str) -> None:
        """Note that a repair is over, and that its coordinator, `successor`, has the ghost of the dead."""
        for name in dead:
            self._succeeded_by.pop(name, None)
            self._succeeded_by[name] = (successor, self._life.now_us)
        while len(self._succeeded_by) > SUCCEEDED_MAX:
            del self._succeeded_by[next(iter(self._succeeded_by))]

    # -- after a full restart ------------------------------------------------------------------------------------------

    def assign(self, keepers: tuple[Keeper, ...]) -> None:
        """Note who looks after the clients of the former lives, for as long as ghosts are kept."""
        self.kept_by = {keeper.life: keeper.broker for keeper in keepers}
        self.kept_until_us = self._life.now_us + self._life.options.ghost_us

    def is_given_up(self, home: Life) -> bool:
        """Whether nobody can make good what clients of this former life missed."""
        return self.kept_by.get(home) == NOBODY

    def given_up(self) -> tuple[Life, ...]:
        """Return the former lives whose clients have still to be told that deliveries may be missing."""
        kept_by = self.kept_by.items() if self._life.now_us < self.kept_until_us else ()
        return tuple([former for former, keeper in kept_by if keeper == NOBODY])

    # -- who looks after whom ------------------------------------------------------------------------------------------

    def find(self, attend: Attend, waited_us: int) -> FoundSuccessor:
        """Find the broker that a client should go to, which has waited here for `waited_us`. The successor of its home
        counts first, then the successors of the brokers that it tried since, the last one first."""
        home, tried = home_of(attend), attend.tried
        if not tried:
            return FoundSuccessor(None)
        me = self._life.seat.name
        found = [self.successor_of(name, waited_us) for name in reversed(tried[1:])]
        known = [name for name in (self.successor_of_life(home, waited_us), *found) if name is not None]
        untried = [name for name in known if name == me or name not in tried[1:]]
        keeper = self.keeper_of(home)
        successor = keeper or next(iter(untried or known), None)
        keeps_ghost = successor is not None and successor in [keeper] + [self.last_successor_of(name) for name in tried]
        return FoundSuccessor(successor, keeps_ghost, keeper in tried)

    def successor_of_life(self, home: Life, waited_us: int) -> str | None:
        """Like `successor_of`, for one life of a broker. A later life of the same name owes its clients nothing."""
        keeper = self.keeper_of(home)
        if keeper is not None:
            return keeper
        link, me = self._links.get(home.name), self._life.seat.name
        now = link.incarnation if link is not None else self._life.view.incarnation_of(home.name)
        return self.successor_of(home.name, waited_us) if now <= home.incarnation or home.name == me else None

    def keeper_of(self, home: Life) -> str | None:
        """Return the other broker that says that it looks after the clients of this life; None if none does."""
        life = self._life
        keeper = self.kept_by.get(home)
        if keeper not in (None, life.seat.name) and life.now_us < self.kept_until_us:
            return keeper
        places = life.view.places.values()
        keepers = [place.name for place in places if home in place.looks_after and place.name != life.seat.name]
        return next((name for name in keepers if not life.view.is_dead(name)), None)

    def successor_of(self, lost: str, waited_us: int) -> str | None:
        """Return the successor of a lost broker for a client that has waited here for `waited_us`: the broker that
        looks after its clients, or the lost broker if it lives. This broker itself while that is not decided yet; None
        if no broker looks after them."""
        life, peers = self._life, self._peers
        view, me = life.view, life.seat.name
        successor = self.last_successor_of(lost)
        if successor is not None and successor != me:
            return successor
        link = self._links.get(lost)
        if link is not None:
            is_heard = peers.is_heard(lost) and peers.incarnation(lost) == link.incarnation
            return lost if is_heard and waited_us >= 2 * life.options.heartbeat_us else me
        if successor is not None:
            return None
        if lost == me:  # the client lost an earlier life of this broker, or was away for too long
            is_young = life.seat.incarnation > 1 and life.now_us - self.began_us < life.options.ghost_us
            return view.parent if is_young else None
        place = view.places.get(lost)
        if place is None:
            return None
        above = place.parent if place.parent is not None else view.configuration.root
        if above not in (me, lost):
            return above
        lives = waited_us >= 2 * life.options.lease_us  # otherwise it would have been declared dead by now
        return lost if lives else me

    def last_successor_of(self, name: str) -> str | None:
        """Return the last successor of a broker that repairs named, following those that died to their own successors;
        None if there is none, or its ghost is older than `ghost_us`."""
        successor: str | None = None
        oldest_us = self._life.now_us - self._life.options.ghost_us
        for _ in range(len(self._succeeded_by)):
            following, since_us = self._succeeded_by.get(successor or name, ("", 0))
            if not following or since_us < oldest_us or following == name:
                break
            successor = following
        return successor
