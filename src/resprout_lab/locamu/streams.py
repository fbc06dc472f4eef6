"""What is sent to whom, and when: FORWARD, (RE)TRANSMIT and the rules of retransmission (sections 3.8.5 and 3.8.6).

To each target a broker's messages form a stream, by the numbers that it gave them for that target. The stream flows
while the target is an active connection, from wherever the target says that it stands (`MissingRequest`), and stops
before a message whose path would not be safe. What another copy adds to a message that was sent already is sent after
it: whoever got it must know these numbers before anything depends on them.

A message that came from the direction of a target was numbered for it by somebody between, or beyond. If that one is
dead, it is sent in its place, as it would have sent it: with the numbers up to its own, and none of those behind it.
"""

from resprout.stacks.shell.outbox import Outbox
from resprout_lab.blocks.passing import Passing
from resprout_lab.blocks.vector_clock import Changes, as_changes
from resprout_lab.locamu.copies import SentMessage, SentSet
from resprout_lab.locamu.identifiers import CountedPath, as_sent, cut_after, is_safe, leading_to
from resprout_lab.locamu.messages import Carried, MissingRequest
from resprout_lab.locamu.past import CountedPair, Past
from resprout_lab.locamu.tree import SafeTree


class _Stream:
    """To one target, in one session."""

    __slots__ = ("flows", "sent", "told")

    def __init__(self) -> None:
        self.flows = False
        """The target has said where it stands."""
        self.sent = 0
        """The last number."""
        self.told: dict[CountedPair, int] = {}
        """The dependencies of all messages so far."""


class Streams:
    def __init__(self, tree: SafeTree, past: Past, copies: SentSet, passing: Passing, outbox: Outbox) -> None:
        self._tree = tree
        self._near = tree.near
        self._past = past
        self._copies = copies
        self._passing = passing
        self._outbox = outbox
        self._streams: dict[str, _Stream] = {}

    @property
    def flowing(self) -> list[str]:
        """The active connections over which something can be said."""
        return [name for name in self._tree.active if (stream := self._streams.get(name)) and stream.flows]

    # -- sessions ------------------------------------------------------------------------------------------------------

    def begin(self, name: str) -> None:
        self._streams[name] = _Stream()
        self._ask(name)

    def end(self, name: str) -> None:
        self._streams.pop(name, None)
        self._passing.end(name)

    def asked(self, name: str) -> None:
        """The other one has said where it stands."""
        self._streams[name].flows = True
        self.resume(name)

    def resume(self, name: str) -> None:
        """What it lacks: first what was sent to it long ago, and what the dead owe it. The rest may depend on it."""
        if name in self._tree.active and (stream := self._streams.get(name)) is not None and stream.flows:
            has = self._copies.counts.get((self._near.name, name), 0)
            for copy in self._copies.lacking(name):
                if copy.branch == self._near.branch(name):
                    self._send_for_the_dead(copy, name)
                elif copy.numbers.get(name, 0) <= has:
                    self._send_again(copy, name)
            self.flow(name)

    def _ask(self, name: str) -> None:
        received = [(one, upto) for one in self._near.reach if (upto := self._past.upto(one))]
        self._outbox.send(name, MissingRequest(tuple(received)))

    # -- messages ------------------------------------------------------------------------------------------------------

    def flow_all(self) -> None:
        for name in self._tree.active:
            self.flow(name)

    def flow(self, name: str) -> None:
        stream = self._streams.get(name)
        if stream is None or not stream.flows or name not in self._tree.active:
            return
        last = self._past.counts.get(name, 0)
        number = max(stream.sent, self._copies.counts.get((self._near.name, name), 0))
        while number < last:
            number += 1
            copy = self._copies.numbered(name, number)
            if copy is not None:
                path = self._path(copy, name)
                if not is_safe(path, self._near.faults):
                    return
                self._send(name, copy, path, self._changed(stream, copy, name))
            stream.sent = number

    def add(self, copy: SentMessage, news: CountedPath) -> None:
        """Other copies have brought these entries: on to whoever was sent it without them."""
        for name in self.flowing:
            if copy.branch == self._near.branch(name):
                self._send_for_the_dead(copy, name)
            elif not self._near.shared(name).isdisjoint(news):
                was_sent = max(self._streams[name].sent, self._copies.counts.get((self._near.name, name), 0))
                if copy.numbers.get(name, 0) <= was_sent:
                    self._send_again(copy, name)
            self.flow(name)

    def _send_again(self, copy: SentMessage, name: str) -> None:
        """With all that is known of its path. What all have is not kept, nor the numbers that it was given here: when
        more of it comes, that is sent as it came."""
        if name in copy.numbers:
            self._send(name, copy, self._path(copy, name), self._all(copy, name))
        else:
            for sender, target in sorted(copy.lacking):
                if target == name:
                    self._send_as(copy, sender, name)

    def owe(self, copy: SentMessage) -> None:
        """It has just come, and who should pass it on to some is dead."""
        for name in self.flowing:
            if copy.branch == self._near.branch(name):
                self._send_for_the_dead(copy, name)

    def _send_for_the_dead(self, copy: SentMessage, name: str) -> None:
        for sender, target in sorted(copy.lacking):
            if target == name and sender in self._tree.dead:
                self._send_as(copy, sender, name)

    def _send_as(self, copy: SentMessage, sender: str, name: str) -> None:
        """As that one would have sent it."""
        before = cut_after(copy.path, sender)
        numbers = before.pop(sender)
        passed_over = self._near.path_between(sender, name)[1:-1]
        path = leading_to(before, sender, numbers, passed_over, self._near.faults)
        if is_safe(path, self._near.faults):
            self._send(name, copy, path, self._all(copy, name))

    # -- headers -------------------------------------------------------------------------------------------------------

    def _path(self, copy: SentMessage, name: str) -> CountedPath:
        near = self._near
        return leading_to(copy.path, near.name, copy.numbers, near.path(name)[1:-1], near.faults)

    def _send(self, name: str, copy: SentMessage, path: CountedPath, dependencies: Changes) -> None:
        item = copy.item
        sent = as_sent(path, self._near.shared(name))
        self._passing.pass_on(name, item, Carried(item.bundle, item.hops + 1, sent, dependencies))

    def _changed(self, stream: _Stream, copy: SentMessage, name: str) -> Changes:
        """Of its dependencies, what the receiver was not told with one before."""
        told = stream.told
        entries = [one for one in self.entries_for(copy, name) if one[1] > told.get(one[0], 0)]
        told.update(entries)
        return as_changes(entries)

    def _all(self, copy: SentMessage, name: str) -> Changes:
        return as_changes(self.entries_for(copy, name))

    def entries_for(self, copy: SentMessage, name: str) -> list[tuple[CountedPair, int]]:
        near, known = self._near, self._near.shared(name)
        own = copy.toward.get(near.branch(name), {})
        entries = [(pair, number) for pair, number in copy.depends.items() if pair[0] in known and pair[1] in known]
        entries += [((near.name, target), number) for target, number in own.items() if target in known]
        return entries
