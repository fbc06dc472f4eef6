"""What brokers tell each other about what they have processed, so that nothing is kept for ever (section 3.9).

*Messages*: how many of each sender's messages each target has processed, to everybody within f + 1 hops of the target.
Whoever published something waits for the first f of these; the others may wait for company.

*Identifiers*: R has gaps where numbers were given to messages that did not come this way. In turn, a broker says to the
next how far its own numbers have come, and what it was told of those before it, as a token behind what it has sent:
whoever has processed all of that will never be brought an older one (L4). A neighbour's lowest number, which the thesis
takes, says nothing of what is on its way.
"""

from typing import Final

from resprout.core.contract import SetTimer, Timer
from resprout.core.errors import PeerError
from resprout.stacks.peers import Outbox
from resprout.stacks.shell import Step
from resprout_lab.blocks.causal_order import Changes, as_changes, check_changes
from resprout_lab.locamu.algorithm import Algorithm
from resprout_lab.locamu.messages import MissingRequest, PrefixesSkipped, ProcessedCounts
from resprout_lab.locamu.past import CountedPair
from resprout_lab.locamu.tree import SafeNeighbourhood

COUNTS_US: Final = 20_000
PREFIXES_US: Final = 1_000_000


class CountsDue(Timer, frozen=True):
    """When to tell how much was processed, for which nobody waits."""


class PrefixesDue(Timer, frozen=True):
    """When to tell which identifiers will not be seen any more."""


class StabilityReports:
    def __init__(self, step: Step, near: SafeNeighbourhood, algorithm: Algorithm, outbox: Outbox) -> None:
        self._step = step
        self._near = near
        self._state = algorithm
        self._outbox = outbox
        self._fresh: dict[CountedPair, int] = {}
        """Counts that were not told yet."""
        self._is_urgent = False
        self._timers: set[type[Timer]] = set()
        """Those that are set."""
        self._told: dict[str, dict[CountedPair, int]] = {}
        """By neighbour: prefixes."""
        self._tokens: dict[str, list[PrefixesSkipped]] = {}
        """By neighbour: those that came before what they follow was processed."""

    # -- counts --------------------------------------------------------------------------------------------------------

    def processed(self, senders: list[str], is_urgent: bool) -> None:
        """Of these, one more message to this broker."""
        for sender in senders:
            if (upto := self._state.past.upto(sender)) > 0:
                self._fresh[sender, self._near.name] = upto
        self._is_urgent = self._is_urgent or is_urgent
        self._set(CountsDue(), COUNTS_US)
        self._set(PrefixesDue(), PREFIXES_US)

    def missing(self, name: str, message: MissingRequest) -> None:
        self.heard(name, tuple([(sender, ((name, number),)) for sender, number in message.received]))
        own = {(one, self._near.name): upto for one in self._near.reach if (upto := self._state.past.upto(one))}
        counts = self._state.sent.counts
        self._tell(name, own | {pair: counts[pair] for pair in counts if self._is_for(name, pair[1])})

    def heard(self, name: str, counts: Changes) -> None:
        """From a neighbour: passed on as far as somebody else must know it."""
        check_changes(counts)
        near, sent = self._near, self._state.sent
        for sender, targets in counts:
            for target, number in targets:
                if sender == near.name and number > self._state.past.counts.get(target, 0):
                    raise PeerError(f"{target} cannot have {number} messages of this broker")
                if target in near.reach and sender in near and sent.processed(sender, target, number):
                    self._fresh[sender, target] = number
        if self._fresh:
            self._set(CountsDue(), COUNTS_US)

    def tell_urgent(self) -> None:
        if self._is_urgent:
            self.counts_due()

    def counts_due(self, timer: CountsDue | None = None) -> None:
        if timer is not None:
            self._timers.discard(CountsDue)
        fresh, self._fresh, self._is_urgent = self._fresh, {}, False
        for name in self._state.flowing:
            self._tell(name, {pair: count for pair, count in fresh.items() if self._is_for(name, pair[1])})

    def _is_for(self, name: str, target: str) -> bool:
        near = self._near
        if target == near.name:
            return True
        return near.branch(target) != near.branch(name) and near.is_within(near.faults + 1, target, name)

    def _tell(self, name: str, counts: dict[CountedPair, int]) -> None:
        if counts:
            self._outbox.pass_by(name, ProcessedCounts(as_changes(counts.items())))

    # -- prefixes ------------------------------------------------------------------------------------------------------

    def prefixes_due(self, timer: PrefixesDue) -> None:
        self._timers.discard(PrefixesDue)
        for name in self._state.flowing:
            told = self._told.setdefault(name, {})
            prefixes = {pair: upto for pair, upto in self._prefixes(name) if upto > told.get(pair, 0)}
            if prefixes:
                told.update(prefixes)
                after = self._state.past.counts.get(name, 0)
                self._outbox.pass_by(name, PrefixesSkipped(after, as_changes(prefixes.items())))

    def _prefixes(self, name: str) -> list[tuple[CountedPair, int]]:
        near, past = self._near, self._state.past
        known, branch = near.shared(name), near.branch(name)
        own = [((near.name, target), count) for target, count in past.counts.items() if target in known]
        others = [
            (pair, ranges.upto)
            for pair, ranges in past.received.items()
            if ranges.upto and pair[0] in known and pair[1] in known
            if pair[0] != near.name and near.branch(pair[0]) != branch
        ]
        return [one for one in (*own, *others) if one[0][1] != name]

    def skip(self, name: str, message: PrefixesSkipped) -> None:
        check_changes(message.prefixes)
        if any(one != name and (one not in self._near or self._is_ahead(name, one)) for one, _ in message.prefixes):
            raise PeerError(f"{name} cannot know how far the numbers of others have come")
        self._tokens.setdefault(name, []).append(message)
        self.take_tokens(name)

    def _is_ahead(self, name: str, source: str) -> bool:
        return source == self._near.name or self._near.branch(source) != self._near.branch(name)

    def take_tokens(self, name: str) -> None:
        """Those whose turn it is."""
        tokens = self._tokens.get(name)
        while tokens and tokens[0].after <= self._state.past.upto(name):
            for sender, targets in tokens.pop(0).prefixes:
                for target, upto in targets:
                    if target in self._near and target != self._near.name:
                        self._state.past.skip(sender, target, upto)

    def end(self, name: str) -> None:
        self._told.pop(name, None)
        self._tokens.pop(name, None)

    def _set(self, timer: Timer, wait_us: int) -> None:
        if type(timer) not in self._timers:
            self._timers.add(type(timer))
            self._step.out.append(SetTimer(timer, self._step.now_us + wait_us))
