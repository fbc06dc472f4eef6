"""Questions about last values: whose turn it is, and who has to wait.

A question looks at up to all last values, and its answer may wait for what was logged before. So each party (an
identity, or a client without one) pays for the time that its questions and its subscriptions with last values take. A
party that has taken more than a tenth of the time of a processor for long waits until that is paid off; others do not.
Of the answers that are made and not given, a party has a few, and the rest of its questions wait as they came.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from resprout.core.contract import SetTimer, Timer
from resprout.core.errors import PeerError
from resprout.edge.broker.quotas import party_of
from resprout.edge.broker.session import ClientSession
from resprout.edge.value_messages import AskValues
from resprout.stacks.resprout.life import BrokerLife

ASKED_MAX: Final = 1_024
"""Questions of one client that wait."""
ASKED_OF_PARTY_MAX: Final = 32 * ASKED_MAX
"""The same of all clients of one identity: as many as 1,024 clients with 16 writes under way have, twice."""
ANSWERS_OF_PARTY: Final = 8
"""Answers of one party that are made and wait for what was logged before."""
LOOK_NS: Final = 700
"""Time that looking at one last value takes, about."""
GIVE_NS: Final = 6_000
"""Time that giving one to a subscription takes, about."""
FREE_LOOKS: Final = 64
"""Values that a question looks at for nothing: it is paid for as a message."""
SHARE: Final = 10
"""A party takes one in so many microseconds, in the long run."""
BURST_US: Final = 1_000_000
"""So far behind with paying a party may be and still be served."""


class AnswerValues(Timer, frozen=True):
    """When to go on with questions of a party that has paid for the earlier ones."""

    party: str


class _Party:
    __slots__ = ("asked", "made", "paid_us", "waiting")

    def __init__(self) -> None:
        self.asked = 0
        """Questions that are not answered."""
        self.made = 0
        """Of these, the ones whose answers are made."""
        self.paid_us = 0
        """When it has paid for everything."""
        self.waiting: deque[tuple[ClientSession, AskValues]] = deque()


class ValueReads:
    def __init__(self, life: BrokerLife, read: Callable[[ClientSession, AskValues], int]) -> None:
        """`read` makes an answer, and returns at how many last values it has looked; `given` is called later."""
        self._life = life
        self._read = read
        self._parties: dict[str, _Party] = {}
        self._of_client: dict[str, int] = {}
        """By client: its questions that are not answered, those about writes included."""

    def __len__(self) -> int:
        """Return the number of questions that are not answered."""
        return sum(self._of_client.values())

    # -- questions -----------------------------------------------------------------------------------------------------

    def count(self, session: ClientSession) -> None:
        """Count a question that has come. Raises PeerError when too many wait."""
        party = self._of(session)
        mine = self._of_client.get(session.name, 0)
        if mine >= ASKED_MAX or party.asked >= ASKED_OF_PARTY_MAX:
            most = ASKED_MAX if mine >= ASKED_MAX else ASKED_OF_PARTY_MAX
            raise PeerError(f"{session.name} has {most} questions about last values that wait")
        self._of_client[session.name] = mine + 1
        party.asked += 1

    def answered(self, session: ClientSession) -> None:
        """Count an answer that is given."""
        left = self._of_client.get(session.name, 0) - 1
        if left > 0:
            self._of_client[session.name] = left
        elif left == 0:
            del self._of_client[session.name]
        self._of(session).asked -= 1
        self._drop(session)

    def ask(self, session: ClientSession, message: AskValues) -> None:
        """Answer a question that was counted, now or in its turn."""
        name, party = party_of(session), self._of(session)
        party.waiting.append((session, message))
        if len(party.waiting) == 1:
            self.go_on(name)

    def given(self, session: ClientSession) -> None:
        """An answer is given, or its client has left."""
        name, party = party_of(session), self._of(session)
        party.made -= 1
        if party.waiting:
            self.go_on(name)
        else:
            self._drop(session)

    def go_on(self, name: str) -> None:
        """Answer questions of a party until it has to pay, or to wait for what was logged before."""
        party, life = self._parties.get(name), self._life
        while party is not None and party.waiting and party.made < ANSWERS_OF_PARTY:
            if party.paid_us > life.now_us + BURST_US:
                life.out.append(SetTimer(AnswerValues(name), party.paid_us - BURST_US))
                return
            session, message = party.waiting.popleft()
            if not session.gone:
                party.made += 1
                looked_at = self._read(session, message)
                self._pay(party, max(0, looked_at - FREE_LOOKS) * LOOK_NS)

    def leave(self, session: ClientSession) -> bool:
        """Forget the questions of a client whose session is over. Return whether it had any."""
        count = self._of_client.pop(session.name, 0)
        party = self._parties.get(party_of(session))
        if party is not None:
            party.asked -= count
            party.waiting = deque([each for each in party.waiting if each[0] is not session])
            self._drop(session)
        return count > 0

    # -- subscriptions -------------------------------------------------------------------------------------------------

    def may_begin(self, session: ClientSession) -> bool:
        """Whether a party has paid, so that another subscription of it may begin with last values."""
        party = self._parties.get(party_of(session))
        return party is None or party.paid_us <= self._life.now_us + BURST_US

    def begun(self, session: ClientSession, looked_at: int, found: int) -> None:
        """Charge a subscription that begins with last values."""
        self._pay(self._of(session), looked_at * LOOK_NS + found * GIVE_NS)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _pay(self, party: _Party, took_ns: int) -> None:
        if took_ns:
            party.paid_us = max(party.paid_us, self._life.now_us) + took_ns * SHARE // 1_000

    def _of(self, session: ClientSession) -> _Party:
        return self._parties.setdefault(party_of(session), _Party())

    def _drop(self, session: ClientSession) -> None:
        """Forget a party that has nothing here and has paid."""
        name = party_of(session)
        party = self._parties.get(name)
        is_over = party is not None and not (party.asked or party.made or party.waiting)
        if party is not None and is_over and party.paid_us <= self._life.now_us:
            del self._parties[name]

    def tick(self) -> None:
        """Forget parties that have nothing here and have paid by now."""
        now_us = self._life.now_us
        idle = [
            name
            for name, party in self._parties.items()
            if party.paid_us <= now_us and not (party.asked or party.made or party.waiting)
        ]
        for name in idle:
            del self._parties[name]
