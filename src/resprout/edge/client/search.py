"""How a client finds another broker when its own does not answer.

The broker that serves a client (its *home*) tells it which brokers to ask when it is gone: its *successors*, the most
likely one first. A home whose session is over is *lost*. A home that is only silent may be frozen, so its session
stays: if it is heard before another broker serves, the client stays with it. Successors are asked one after the other,
in rounds, and the lost home last, because it may have returned or never have died. A home that ended the session itself
is asked first: it lives, and knows the most about the client.

A broker that is asked may delay its answer while it repairs the tree around the lost one. Until a first broker has
served, the client knows only the brokers that its program named.

This module does not decide whether a broker is dead. The brokers that are asked know more, and send the client back to
its home if that lives.
"""

from collections.abc import Sequence
from typing import Final

from resprout.core.contract import CancelTimer, Close, Effect, Locate, Open, SetTimer, Timer
from resprout.edge.client.options import AnswerDue, AskAgain, AskOthers
from resprout.edge.messages import TRIED_MAX, Successor

SUCCESSORS_MAX: Final = 64
"""Successors that a client remembers."""
DETOURS_MAX: Final = 8
"""How often brokers may send the client on (`GoTo`) in one round."""
ANSWER_US: Final = 10_000_000
"""How long a candidate may take to answer `Attend`."""
ROUND_US_MIN: Final = 200_000
ROUND_US_MAX: Final = 2_000_000
"""Bounds on the pause between rounds, which doubles after each round."""
SENT_ON_MAX: Final = 8
"""`GoTo` answers in one search. After more, the client gives up what it missed, and any broker may serve it."""
BRIEF_US: Final = 2_000_000
BRIEF_MAX: Final = 3
"""A session that ends within `BRIEF_US` is brief. After more than `BRIEF_MAX` brief ones in a row, the client pauses
before it searches again."""

Effects = list[Effect]


class BrokerSearch:
    """Opens and closes the sessions of a client. `home` serves it, or served it last; `candidate` is being asked to."""

    def __init__(self, broker: str, patience_us: int, others: Sequence[str] = ()) -> None:
        self.home = broker
        """The broker that serves, or served last; before that, the first one to ask."""
        self.stands = False
        """Whether the session with `home` stands; the broker may be silent."""
        self.candidate: str | None = broker
        """The broker that is being asked to serve; None if none is."""
        self.tried: list[str] = []
        """The broker that served last, then those that were asked since and did not serve."""
        self._patience_us = patience_us
        """How long a silent home is waited for before the search begins."""
        self._served_us: int | None = None
        """When a broker last began to serve; None before the first one."""
        self.searching = False
        """Whether a broker other than `home` may serve next."""
        self._successors = tuple(name for name in others if name != broker)[:SUCCESSORS_MAX]
        self._round: list[str] = []
        """Brokers that are still to be asked in this round."""
        self._detours = 0
        """`GoTo` answers in this round."""
        self._sent_on = 0
        """`GoTo` answers in this search."""
        self._round_us = ROUND_US_MIN
        """Pause before the next round."""
        self._brief = 0
        """Brief sessions in a row (`BRIEF_US`)."""
        self._timer: Timer | None = None
        """The timer that is set; None if none is."""

    @property
    def was_served(self) -> bool:
        return self._served_us is not None

    @property
    def anyhow(self) -> bool:
        """Whether the client was sent on too often: any broker may serve it, and what it missed is given up."""
        return self._sent_on > SENT_ON_MAX

    @property
    def names(self) -> tuple[str, ...]:
        """The broker that serves, or did so last, and whom to turn to after it."""
        return (self.home, *self._successors)

    def start(self, now_us: int, out: Effects) -> None:
        out.append(Open(self.home))
        if self._successors:
            self.searching = True
            self._round = list(self._successors)
            self._set_timer(AnswerDue(self.home), now_us + ANSWER_US, out)

    def stop(self, reason: str, out: Effects) -> None:
        """Close all sessions: the client leaves."""
        for name in dict.fromkeys((self.home if self.stands else None, self.candidate)):
            if name is not None:
                out.append(Close(name, reason))
        self.stands = self.searching = False
        self.candidate = None
        self._stop_timer(out)

    # -- what is heard of brokers --------------------------------------------------------------------------------------

    def up(self, peer: str, now_us: int, out: Effects) -> bool:
        """Take note of a new session. Return whether to ask this peer to serve."""
        if peer != self.candidate:
            out.append(Close(peer, "not needed any more"))
            return False
        if self.searching:
            self._set_timer(AnswerDue(peer), now_us + ANSWER_US, out)
        return True

    def serves(self, peer: str, successors: tuple[Successor, ...], now_us: int, out: Effects) -> None:
        """Make the candidate `home`."""
        if self.stands and peer != self.home:
            out.append(Close(self.home, f"{peer} serves this client now"))
        self.home = peer
        self.stands = True
        self.candidate = None
        self._served_us = now_us
        self._end_search(out)
        self.learn(successors, out)

    def learn(self, successors: tuple[Successor, ...], out: Effects) -> None:
        """Replace the list of successors."""
        others = {successor.name: successor for successor in successors if successor.name != self.home}
        self._successors = tuple(others)[:SUCCESSORS_MAX]
        for name in self._successors:
            _locate(others[name], out)

    def silent(self, peer: str, refused: bool, now_us: int, out: Effects) -> None:
        """A connection broke. If `home` is silent, search at once when its host refuses, otherwise after
        `patience_us`."""
        if peer == self.candidate:
            if self.searching:
                self._fail(f"{peer} is silent", True, now_us, out)
        elif peer == self.home and self.stands and not self.searching:
            if refused:
                self._begin_search(now_us, out)
            elif self._timer is None:
                self._set_timer(AskOthers(), now_us + self._patience_us, out)

    def heard(self, peer: str, out: Effects) -> None:
        """The connection to a broker stands again: if it is `home`, end the search."""
        if peer == self.home and self.stands and (self.searching or self._timer is not None):
            self._drop_candidate(f"{peer} is heard again", out)
            self._end_search(out)

    def down(self, peer: str, now_us: int, out: Effects, by_peer: bool = False) -> None:
        """A session is over for good; `by_peer`: the peer ended it, in the same life."""
        if peer == self.candidate:
            if self.searching:
                self._fail(f"{peer} did not serve", True, now_us, out)
        elif peer == self.home and self.stands:
            self.stands = False
            out.append(Close(peer, "its session is over"))  # the search opens another one when its turn comes
            self._lost_home(now_us, out, peer if by_peer else None)

    def go_to(self, peer: str, successor: Successor, now_us: int, out: Effects) -> None:
        """A broker says that another one serves this client (`GoTo`)."""
        _locate(successor, out)
        if peer == self.home and self.stands:
            self.stands = False
            out.append(Close(peer, f"sent on to {successor.name}"))
            self._begin_search(now_us, out, first=successor.name)
        elif successor.name == self.home and self.stands:
            self._drop_candidate(f"{peer} says that {successor.name} lives", out)
            self._end_search(out)
            self._set_timer(AskOthers(), now_us + self._patience_us, out)
        else:
            self.searching = True  # it may be sent on before any broker has served it
            self._detours += 1
            self._sent_on += 1
            if successor.name != peer and self._detours <= DETOURS_MAX:
                self._put_first(successor.name)
            self._fail(f"sent on to {successor.name}", False, now_us, out)

    def refuse(self, reason: str, now_us: int, out: Effects) -> None:
        """Give up a candidate that breaks the protocol."""
        self.searching = True
        self._fail(reason, False, now_us, out)

    def fired(self, timer: Timer, now_us: int, out: Effects) -> None:
        if timer != self._timer:
            return
        self._timer = None
        if isinstance(timer, AskOthers):
            self._begin_search(now_us, out)
        elif isinstance(timer, AnswerDue):
            self._fail(f"{timer.broker} does not answer", True, now_us, out)
        else:
            self._begin_round()
            self._ask_next(now_us, out)

    # -- rounds --------------------------------------------------------------------------------------------------------

    def _lost_home(self, now_us: int, out: Effects, first: str | None) -> None:
        """Search for another broker; `first`: the one to ask first, because it ended the session itself."""
        if self.searching:
            self._round.append(self.home)
            if self.candidate is None and self._timer is None:
                self._ask_next(now_us, out)
            return
        assert self._served_us is not None, "it stood"
        self._brief = self._brief + 1 if now_us - self._served_us < BRIEF_US else 0
        if self._brief > BRIEF_MAX:
            self.searching = True
            self._note_tried(self.home)
            self._wait_for_round(now_us, out)
        else:
            self._begin_search(now_us, out, first)

    def _begin_search(self, now_us: int, out: Effects, first: str | None = None) -> None:
        self.searching = True
        self._stop_timer(out)
        self._note_tried(self.home)
        self._begin_round()
        if first is not None:
            self._put_first(first)
        self._ask_next(now_us, out)

    def _end_search(self, out: Effects) -> None:
        """End the search: a broker serves, or `home` is heard again."""
        self.searching = False
        self._stop_timer(out)
        self._round.clear()
        self.tried.clear()
        self._detours = self._sent_on = 0
        if self._brief <= BRIEF_MAX:
            self._round_us = ROUND_US_MIN

    def _names(self) -> tuple[str, ...]:
        """Return the brokers to ask in one round. `home` is left out while its session stands: links reconnect by
        themselves."""
        return self._successors if self.stands else (*self._successors, self.home)

    def _begin_round(self) -> None:
        self._round = list(self._names())
        self._detours = 0

    def _put_first(self, name: str) -> None:
        if name in self._round:
            self._round.remove(name)
        self._round.insert(0, name)

    def _ask_next(self, now_us: int, out: Effects) -> None:
        if self._round:
            self.candidate = self._round.pop(0)
            out.append(Open(self.candidate))
            self._set_timer(AnswerDue(self.candidate), now_us + ANSWER_US, out)
        else:
            self._wait_for_round(now_us, out)

    def _wait_for_round(self, now_us: int, out: Effects) -> None:
        if names := self._names():
            self._set_timer(AskAgain(names), now_us + self._round_us, out)
            self._round_us = min(2 * self._round_us, ROUND_US_MAX)

    def _fail(self, reason: str, lost: bool, now_us: int, out: Effects) -> None:
        """Give up the candidate and ask the next one. `lost`: it did not answer, so it counts as tried."""
        if lost and self.candidate is not None:
            self._note_tried(self.candidate)
        self._drop_candidate(reason, out)
        self._stop_timer(out)
        self._ask_next(now_us, out)

    def _drop_candidate(self, reason: str, out: Effects) -> None:
        if self.candidate is not None:
            out.append(Close(self.candidate, reason))
            self.candidate = None

    def _note_tried(self, name: str) -> None:
        if self.was_served and name not in self.tried and len(self.tried) < TRIED_MAX:
            self.tried.append(name)

    def _set_timer(self, timer: Timer, at_us: int, out: Effects) -> None:
        if self._timer != timer:
            self._stop_timer(out)
        self._timer = timer
        out.append(SetTimer(timer, at_us))

    def _stop_timer(self, out: Effects) -> None:
        if self._timer is not None:
            out.append(CancelTimer(self._timer))
            self._timer = None


def _locate(successor: Successor, out: Effects) -> None:
    if successor.address:
        out.append(Locate(successor.name, successor.address))
