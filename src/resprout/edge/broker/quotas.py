"""Quotas of the clients of each identity, and back-pressure against sources that have too much under way.

A client that wants more than its quota of a broker is refused. The party that is charged is the identity that a client
has proven, or the client itself where nothing is proven. All limits are counted where the client is served. What costs
work while others publish is bounded in three ways: by the number of filters of a party that a topic can match
(`identity_wildcards`), by the deep placements of wildcards in the whole network, each of which costs a new topic one
lookup (`wildcards`), and by the steps that conditions take in a second (`identity_steps`), which are looked at inside
each bundle (`spend`).

A party takes new deep placements only while it has less than one sixteenth of what is still free (a *dynamic
threshold*). The more parties take, the less each gets, and a part always stays free: beside 64 parties that take all
they can get, the next one still gets 12, and beside 1,000 it gets one.

`BackPressure` holds back a *source*, a neighbour or a client, that has too much under way, and releases it at half of
that. The stack says what counts against a source, and in which unit. Several sources may share one account.
"""

from collections.abc import Callable
from typing import Final

from resprout.core.contract import Effect, Hold, Note, Release
from resprout.core.errors import UsageError
from resprout.core.limits import ClientLimits
from resprout.core.message_fields import Marks, from_marks
from resprout.edge.broker.session import ClientSession
from resprout.filters.index import SHALLOW_LEVELS
from resprout.filters.predicate import Predicate, is_plain, placement_of

CONDITION_BYTES: Final = 64
"""What a condition counts for, besides its text."""
PARTIES_MAX: Final = 10_000
"""Parties without sessions whose work is remembered."""
SECOND_US: Final = 1_000_000
PARSED_MOST: Final = 2
"""A party may have twice as many bytes of conditions parsed at a time as it may have."""
PARSED_SECONDS: Final = 16
"""After so many seconds it may have all of that parsed again."""
DEEP_PLACEMENTS: Final = 1_024
"""Different placements of wildcards in filters of more than `SHALLOW_LEVELS` levels that a broker knows, those that
neighbours relay included. A message that names 65 new topics then takes about 70 ms to look up at most (extrapolated
from 0.7 us for a lookup)."""
DEEP_SHARE: Final = 16
"""A party may have one in so many of the deep placements that are free."""
MARKS_MAX: Final = 1 << 20
"""Marks of what clients of one party have received before they came: about 200 MB."""


class BackPressure:
    __slots__ = ("_account", "_low", "holding", "most")

    def __init__(self, most: int, account: Callable[[str], int]) -> None:
        """`account` tells what counts against a source that is held."""
        self.most = most
        """More than that, and a source is held."""
        self._low = max(1, most // 2)
        self._account = account
        self.holding: dict[str, None] = {}
        """Who is held back now."""

    def check(self, source: str, amount: int, out: list[Effect]) -> None:
        """So much counts against it now."""
        if amount > self.most and source not in self.holding:
            self.holding[source] = None
            out.append(Hold(source))

    def forget(self, source: str) -> None:
        """The session is over, and its hold with it."""
        self.holding.pop(source, None)

    def release(self, out: list[Effect]) -> None:
        """At the end of a step in which somebody is held back."""
        for source in [source for source in self.holding if self._account(source) < self._low]:
            del self.holding[source]
            out.append(Release(source))


class LimitError(UsageError):
    """A party has as much as it may. `limit` names the limit."""

    def __init__(self, limit: str, most: int, complaint: str) -> None:
        super().__init__(f"{complaint} (limit {limit})")
        self.limit = limit
        self.most = most

    @property
    def why(self) -> str:
        """The same for all parties with this limit: refusals are counted by it."""
        return limit_reason(self.limit, self.most)


class _Usage:
    __slots__ = (
        "condition_bytes",
        "durable_steps",
        "durables",
        "marks",
        "parsed",
        "parsed_us",
        "placements",
        "sessions",
        "spent",
        "spent_us",
        "subscriptions",
    )

    def __init__(self) -> None:
        self.sessions = 0
        self.subscriptions = 0
        self.condition_bytes = 0
        self.placements: dict[str, int] = {}
        self.durables = 0
        self.durable_steps = 0
        self.spent = 0
        """Steps that are not paid off yet."""
        self.spent_us = 0
        self.parsed = 0
        """Bytes of conditions that were parsed, and are not paid off yet."""
        self.parsed_us = 0
        self.marks = 0


class Quotas:
    def __init__(self, known_deep: Callable[[], int] = lambda: 0) -> None:
        """`known_deep` tells how many deep placements of wildcards this broker knows, from clients and neighbours."""
        self._known_deep = known_deep
        self._parties: dict[str, _Usage] = {}
        self.deep: dict[str, int] = {}
        """How many parties here have filters with each deep placement of wildcards."""
        self._durables: dict[str, tuple[str, int, str]] = {}
        """By name: the party that has begun it, the steps that its condition may take, and its filter."""
        self.refused: dict[str, int] = {}
        """How often somebody was refused something, by the limit."""
        self.overspent: dict[str, str] = {}
        """Sessions whose conditions cost more than they may: why each has to end."""

    def enter(self, session: ClientSession) -> None:
        self._usage(session).sessions += 1

    def leave(self, session: ClientSession) -> None:
        usage = self._usage(session)
        usage.sessions -= 1
        usage.marks -= len(session.received)
        for predicate in session.subscriptions.values():
            self.give_back(session, predicate)
        self.overspent.pop(session.name, None)
        if not usage.sessions and not usage.spent and not usage.parsed and not usage.durables:
            del self._parties[party_of(session)]
        elif len(self._parties) > PARTIES_MAX:
            idle = (party for party, one in self._parties.items() if not one.sessions and not one.durables)
            if (party := next(idle, None)) is not None:
                del self._parties[party]

    def charge_parsing(self, session: ClientSession, size: int, now_us: int) -> None:
        """Count bytes of conditions that are about to be parsed. LimitError when they are too many: parsing costs a
        party that is refused as much work as one that is not."""
        usage, most = self._usage(session), PARSED_MOST * session.limits.identity_condition_bytes
        usage.parsed = max(0, usage.parsed - (now_us - usage.parsed_us) * most // (PARSED_SECONDS * SECOND_US))
        usage.parsed_us = now_us
        if usage.parsed + size > most:
            complaint = f"{party_of(session)} had {usage.parsed} bytes of conditions read within {PARSED_SECONDS} s"
            raise LimitError("identity_condition_bytes", session.limits.identity_condition_bytes, complaint)
        usage.parsed += size

    def keep_received(self, session: ClientSession, marks: Marks) -> None:
        """Remember what a client has received before it came. Of too many marks the first ones are left out, as a
        client leaves out the oldest: it drops by itself what it is given twice."""
        usage = self._usage(session)
        room = max(0, MARKS_MAX - usage.marks)
        session.received = from_marks(marks[max(0, len(marks) - room) :])
        usage.marks += len(session.received)

    def take(self, session: ClientSession, predicate: Predicate) -> None:
        """Count one more subscription, before it is among those of the session. LimitError when there are too many.
        That of a durable subscription counts for the party that has begun it (`take_durable`)."""
        if session.is_inner:
            return
        limits, usage, party = session.limits, self._usage(session), party_of(session)
        _check("client_subscriptions", limits, len(session.subscriptions), 1, session.name, "subscriptions")
        _check("identity_subscriptions", limits, usage.subscriptions, 1, party, "subscriptions at this broker")
        size = _condition_bytes(predicate)
        _check("identity_condition_bytes", limits, usage.condition_bytes, size, party, "bytes of conditions")
        self._take_placement(party, limits, usage, predicate.filter)
        usage.subscriptions += 1
        usage.condition_bytes += size

    def give_back(self, session: ClientSession, predicate: Predicate) -> None:
        """A subscription is over."""
        if not session.is_inner:
            usage = self._usage(session)
            usage.subscriptions -= 1
            usage.condition_bytes -= _condition_bytes(predicate)
            self._give_back_placement(usage, predicate.filter)

    def take_durable(self, session: ClientSession, name: str, predicate: Predicate) -> None:
        """Count a durable subscription that a client begins. LimitError when its party has too many."""
        limits, usage, party = session.limits, self._usage(session), party_of(session)
        steps = predicate.where.price.most if predicate.where is not None else 0
        _check("identity_durables", limits, usage.durables, 1, party, "durable subscriptions at this broker")
        what = "steps a message in the conditions of its durable subscriptions"
        _check("durable_steps", limits, usage.durable_steps, steps, party, what)
        self._take_placement(party, limits, usage, predicate.filter)
        usage.durables += 1
        usage.durable_steps += steps
        self._durables[name] = (party, steps, predicate.filter)

    def end_durable(self, name: str) -> None:
        """It is not held here any more, whoever has begun it."""
        party, steps, topic_filter = self._durables.pop(name, ("", 0, ""))
        if (usage := self._parties.get(party)) is not None:
            usage.durables -= 1
            usage.durable_steps -= steps
            self._give_back_placement(usage, topic_filter)
            if not usage.sessions and not usage.durables and not usage.spent and not usage.parsed:
                del self._parties[party]

    def spend(self, session: ClientSession, steps: int, now_us: int) -> bool:
        """Charge a party for work. False when it has spent more than it may: then its session has to end."""
        usage, most = self._usage(session), session.limits.identity_steps
        if usage.spent_us != now_us:
            usage.spent = max(0, usage.spent - (now_us - usage.spent_us) * most // SECOND_US)
            usage.spent_us = now_us
        usage.spent += steps
        if usage.spent <= most:
            return True
        if session.name not in self.overspent:
            complaint = f"testing the conditions of {party_of(session)} takes more than {most} steps in a second"
            self.overspent[session.name] = f"{complaint} (limit identity_steps)"
        return False

    def refuse(self, session: ClientSession, error: LimitError, out: list[Effect]) -> None:
        """Count a refusal, and tell people of the first, the tenth, the hundredth and so on."""
        self.count(session.name, error.why, out)

    def count(self, client: str, why: str, out: list[Effect]) -> None:
        count = self.refused[why] = self.refused.get(why, 0) + 1
        if str(count).strip("0") == "1":
            more = f"; {count} times by now" if count > 1 else ""
            out.append(Note("note", {"detail": f"{client} was refused: {why}{more}"}))

    def _take_placement(self, party: str, limits: ClientLimits, usage: _Usage, topic_filter: str) -> None:
        if is_plain(topic_filter):
            return
        placement = placement_of(topic_filter)
        if placement not in usage.placements:
            used = len(usage.placements)
            _check("identity_wildcards", limits, used, 1, party, "placements of wildcards in its filters")
            if len(placement) > SHALLOW_LEVELS:
                self._take_deep(party, usage, placement)
        usage.placements[placement] = usage.placements.get(placement, 0) + 1

    def _take_deep(self, party: str, usage: _Usage, placement: str) -> None:
        if placement not in self.deep:
            mine = sum(len(one) > SHALLOW_LEVELS for one in usage.placements)
            free = DEEP_PLACEMENTS - max(len(self.deep), self._known_deep())
            if mine * DEEP_SHARE >= free:
                complaint = (
                    f"{party} has {mine} placements of wildcards in filters of more than {SHALLOW_LEVELS} levels"
                )
                raise LimitError("wildcards", DEEP_PLACEMENTS, f"{complaint}, and {max(0, free)} are free for all")
        self.deep[placement] = self.deep.get(placement, 0) + 1

    def _give_back_placement(self, usage: _Usage, topic_filter: str) -> None:
        if is_plain(topic_filter):
            return
        placement = placement_of(topic_filter)
        usage.placements[placement] -= 1
        if not usage.placements[placement]:
            del usage.placements[placement]
            if len(placement) > SHALLOW_LEVELS:
                self.deep[placement] -= 1
                if not self.deep[placement]:
                    del self.deep[placement]

    def _usage(self, session: ClientSession) -> _Usage:
        party = party_of(session)
        usage = self._parties.get(party)
        if usage is None:
            usage = self._parties[party] = _Usage()
        return usage


def limit_reason(limit: str, most: int) -> str:
    return f"{most} is the limit (limits.{limit})"


def party_of(session: ClientSession) -> str:
    """Who is charged for what a session costs."""
    return session.identity or session.name


def _check(limit: str, limits: ClientLimits, used: int, more: int, who: str, what: str) -> None:
    most: int = getattr(limits, limit)
    if used + more > most:
        raise LimitError(limit, most, f"{who} has {used} {what} and may have {most}")


def _condition_bytes(predicate: Predicate) -> int:
    return 0 if predicate.where is None else len(predicate.where.text) + CONDITION_BYTES
