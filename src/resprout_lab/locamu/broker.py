"""One broker: its parts, and what it does with a publication."""

import random
from collections import deque
from typing import Final, NamedTuple

from resprout.core.contract import Recovered
from resprout.core.errors import PeerError
from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.edge.broker.session import ClientSession
from resprout.edge.messages import Publish, Serving
from resprout.stacks.shell.peers import Peer
from resprout.stacks.stack import BrokerSeat
from resprout_lab.blocks.holdback import HoldBack
from resprout_lab.blocks.item import KeptItem
from resprout_lab.blocks.recorded import RecordedSubscriptions
from resprout_lab.blocks.serving import ServingShell
from resprout_lab.blocks.tree import LinkEnded
from resprout_lab.blocks.vector_clock import Changes, check_changes
from resprout_lab.locamu.copies import SentMessage
from resprout_lab.locamu.identifiers import CountedPath, read_path
from resprout_lab.locamu.journal import StateJournal
from resprout_lab.locamu.messages import Carried, MissingRequest, PrefixesSkipped, ProcessedCounts
from resprout_lab.locamu.options import LocamuOptions
from resprout_lab.locamu.reports import CountsDue, PrefixesDue, StabilityReports
from resprout_lab.locamu.state import BrokerState
from resprout_lab.locamu.streams import Streams
from resprout_lab.locamu.tree import ActiveChanged, SafeTree, TalkAgain, TalkBegan

GUARANTEES: Final = (Guarantee.EVENTUAL, Guarantee.FIFO, Guarantee.CAUSAL)
RECEIPTS: Final = (ReceiptLevel.ACCEPTED, ReceiptLevel.SAFE)


class CarriedArrival(NamedTuple):
    item: KeptItem
    branch: str
    path: CountedPath
    dependencies: Changes
    follows: tuple[str, int]
    """The one who sent it, and the number of the message before it."""
    depends: tuple[tuple[str, int], ...]
    """(sender, number), of messages to this broker."""


class LocamuBroker(ServingShell):
    def __init__(self, seat: BrokerSeat, options: LocamuOptions, rng: random.Random) -> None:
        self._wishes = RecordedSubscriptions()
        super().__init__(Serving("locamu", GUARANTEES, options.f, receipts=RECEIPTS), self._wishes, options.buffer)
        step, outbox = self._step, self._outbox
        self._name, self._faults = seat.name, options.f
        self.tree = tree = SafeTree(seat, step, outbox, options.f)
        self._near = tree.near
        self.state = state = BrokerState(tree.near, self._kept)
        self._streams = Streams(tree, state.past, state.copies, self._passing, outbox)
        self._reports = reports = StabilityReports(step, tree.near, state, self._streams, outbox)
        self._journal = StateJournal(step, state, tree)
        self.held: HoldBack[str, CarriedArrival] = HoldBack(self._missing, options.held_back)
        self._unsafe: deque[SentMessage] = deque()
        """Processed, and not shown: it, or one before it, is at too few brokers."""
        self._rests_on = 1
        """Brokers that have what is shown next, at most f + 1."""
        self._sessions.copies_of = lambda item: self._rests_on
        tree.is_unheard_of = lambda name: not (state.past.upto(name) or state.copies.counts.get((self._name, name)))
        self._open(
            tree,
            {
                Carried: self._hear,
                MissingRequest: lambda peer, message: self._answer(peer.name, message),
                ProcessedCounts: self._counted,
                PrefixesSkipped: lambda peer, message: reports.skip(peer.name, message),
            },
            publish=self._publish,
            is_ready=lambda: tree.is_in,
            events={Recovered: self._recovered},
            timers={
                CountsDue: reports.counts_due,
                PrefixesDue: reports.prefixes_due,
                TalkAgain: tree.talk_again,
            },
            outcomes={
                LinkEnded: self._ended,
                TalkBegan: self._talk_began,
                ActiveChanged: self._active_changed,
            },
            at_end=(reports.tell_urgent,),
        )

    # -- publications --------------------------------------------------------------------------------------------------

    def _publish(self, session: ClientSession, message: Publish) -> None:
        """Of a client here: PUBLISH of the thesis."""
        bundle = message.bundle
        if not self.state.seen.has(bundle):
            item = KeptItem(bundle, 0, session.name, message.prompt)
            self._kept.keep(item)  # until it is shown
            self._process(item, None, {}, ())
        elif not any(copy.item.bundle == bundle for copy in self._unsafe):
            self._sessions.known(session, bundle, everywhere=False)

    def _hear(self, peer: Peer, message: Carried) -> None:
        """Of another broker: it is processed when all that it depends on was."""
        arrival = self._read(peer.name, message)
        if not self.held.put(arrival):
            raise PeerError("too much that cannot be processed waits here")
        self._kept.keep(arrival.item)
        self._process_ready()

    def _read(self, name: str, message: Carried) -> CarriedArrival:
        near = self._near
        check_changes(message.identifiers)
        check_changes(message.dependencies)
        path = read_path(message.identifiers)
        if not path or tuple(path) != near.way_from(next(iter(path))) or len(path) != len(message.identifiers):
            raise PeerError(f"{message.bundle!r} cannot have come on that path")
        sender = next((one for one in reversed(path) if path[one]), None)
        if sender is None or near.name not in path[sender]:
            raise PeerError(f"{message.bundle!r} is not for this broker")
        # What comes in the place of a dead one is in the order of whoever sends it: some that the dead one had counted
        # before may have died with it, and come by the numbers of others.
        follows = (sender, path[sender][near.name] - 1 if sender == name else 0)
        depends = [
            (one, number)
            for one, targets in message.dependencies
            for target, number in targets
            if target == near.name and one in near
        ]
        item = KeptItem(message.bundle, message.hops, name, False)
        return CarriedArrival(item, next(reversed(path)), path, message.dependencies, follows, tuple(depends))

    def _missing(self, arrival: CarriedArrival) -> tuple[str, int] | None:
        """Something that must be processed before (L3): all messages to this broker of the one who sent it, up to it,
        and those that it depends on."""
        past, (sender, number) = self.state.past, arrival.follows
        if number > past.upto(sender):
            return arrival.follows
        return next((one for one in arrival.depends if not past.has_received(*one)), None)

    def _process_ready(self) -> None:
        """UNBUFFER of the thesis."""
        while (arrival := self.held.take()) is not None:
            self._process(arrival.item, arrival.branch, arrival.path, arrival.dependencies)
            senders = [sender for sender, numbers in arrival.path.items() if self._name in numbers]
            for sender in senders:
                self.held.reached(sender, max(self.state.past.upto(sender), arrival.path[sender][self._name]))
                self._reports.take_tokens(sender)
            self._reports.processed(senders, len(arrival.path) <= self._faults)
            self._kept.let_go(arrival.item)

    def _process(self, item: KeptItem, branch: str | None, path: CountedPath, dependencies: Changes) -> None:
        """RECEIVE of the thesis, from where a message is in order; and FORWARD."""
        copy, news = self.state.process(item, branch, path, dependencies)
        self._journal.write_processed(item, branch, path, copy.numbers if news is None else {}, dependencies)
        if news is None:
            self._streams.owe(copy)
            self._streams.flow_all()
            self._unsafe.append(copy)
            self._show_safe()
        elif news:  # otherwise two that pass over the same dead one would send each other the same for ever
            self._streams.add(copy, news)

    # -- what is shown -------------------------------------------------------------------------------------------------

    def _show_safe(self) -> None:
        """Show what f + 1 brokers have, or all that live of those it was numbered for, in the order in which it was
        processed (L6)."""
        unsafe = self._unsafe
        while unsafe and self._is_safe(unsafe[0]):
            copy = unsafe.popleft()
            self._rests_on = min(self._faults, len(copy.had_by)) + 1
            item = copy.item
            self._show_to(self._wishes.table.matches(item.bundle), item)
            if item.hops == 0:
                self._kept.let_go(item)

    def _is_safe(self, copy: SentMessage) -> bool:
        """A broker that joined later is not counted: the message was never numbered for it."""
        if len(copy.had_by) >= self._faults:
            return True
        return all(target in copy.had_by or self.tree.is_dead(target) for _, target in copy.lacking)

    def _counted(self, peer: Peer, message: ProcessedCounts) -> None:
        self._reports.heard(peer.name, message.counts)
        self._show_safe()

    # -- other brokers -------------------------------------------------------------------------------------------------

    def _talk_began(self, outcome: TalkBegan) -> None:
        self._streams.begin(outcome.name)
        if (message := self.tree.early.pop(outcome.name, None)) is not None:
            try:
                self._answer(outcome.name, message)
            except PeerError as error:
                self.tree.cut_off(outcome.name, str(error))

    def _answer(self, name: str, message: MissingRequest) -> None:
        self._reports.missing(name, message)
        self._streams.asked(name)
        self._show_safe()

    def _ended(self, outcome: LinkEnded) -> None:
        self._streams.end(outcome.name)
        self._reports.end(outcome.name)

    def _active_changed(self, outcome: ActiveChanged) -> None:
        self._journal.write_places()
        for name in self.tree.active:
            self._streams.resume(name)
        self._show_safe()

    def _recovered(self, event: Recovered) -> None:
        if not self._journal.read(event.records):
            self._step.note("recovery", "what is on disk cannot be read")
            return
        for copy in self.state.copies:
            if copy.branch is None:  # its publisher may not know that it is safe
                self._kept.keep(copy.item)
                self._unsafe.append(copy)
