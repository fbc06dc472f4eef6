"""Clients of a broker that starts again: they are given everything that they missed (section 3.2.3: nodes that return
receive all messages; here the clients of a node do, too).

A broker that starts again has a *stand-in* for the clients of its earlier lives. The stand-in is shown everything that
is in the journal, and everything that comes. A client that returns says what it wants and how far it has come, and is
handed the rest, in the order in which the broker showed it. After `return_us` the broker waits for nobody any more.
"""

from typing import Final

from resprout.core.contract import SetTimer, Timer
from resprout.edge.broker.ghosts import home_of
from resprout.edge.broker.owed import Owed
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.messages import Attend
from resprout.stacks.shell import Step
from resprout.stacks.stack import BrokerSeat
from resprout_lab.blocks.retention import KeptItem
from resprout_lab.blocks.subscriptions import Matches

STAND_IN: Final = "~returning"
"""No client is called like this."""


class ReturnOver(Timer, frozen=True):
    """When to stop keeping messages for clients of earlier lives."""


class ReturningClients:
    def __init__(self, seat: BrokerSeat, step: Step, sessions: ClientSessions, return_us: int) -> None:
        self._seat = seat
        self._step = step
        self._sessions = sessions
        self._return_us = return_us
        self._unread: list[KeptItem] = []
        """Shown, and perhaps not taken by all of its readers."""

    def stand_in(self) -> None:
        """The broker has had an earlier life."""
        self._sessions.arrive(STAND_IN, 0, 0)
        self._step.out.append(SetTimer(ReturnOver(), self._step.now_us + self._return_us))

    def over(self, timer: ReturnOver) -> None:
        self._sessions.leave(STAND_IN, self._step.out)

    def readers(self, matches: Matches) -> Matches:
        """Return these, and the stand-in, which reads everything."""
        return {**matches, STAND_IN: None} if STAND_IN in self._sessions.all else matches

    def welcome(self, session: ClientSession, attend: Attend) -> None:
        home, stand_in = home_of(attend), self._sessions.all.get(STAND_IN)
        is_back = home.name == self._seat.name and home.incarnation < self._seat.incarnation
        resumed = not attend.subscriptions or (is_back and stand_in is not None)
        self._sessions.welcome(session, attend, (), resumed, self._step.out)
        if stand_in is not None and resumed and attend.subscriptions:
            owed = Owed(attend)
            for item in list(stand_in.backlog):
                if item.bundle is not None and (offsets := owed.offsets(item.bundle)):
                    self._sessions.hand_over(session, item, offsets, self._step.out)

    # -- what a next life has to know ----------------------------------------------------------------------------------

    def shown(self, item: KeptItem) -> None:
        if item.needed:
            self._unread.append(item)

    def unread(self) -> list[KeptItem]:
        """Return what a reader may not have taken."""
        self._unread = [item for item in self._unread if item.needed]
        return self._unread
