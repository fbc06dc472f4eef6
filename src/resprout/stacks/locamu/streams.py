"""What is sent to whom, and when: FORWARD, (RE)TRANSMIT and the rules of retransmission (sections 3.8.5 and 3.8.6).

To each target a broker's messages form a stream, by the numbers that it gave them for that target. The stream flows
while the target is an active connection, from wherever the target says that it stands (`MissingRequest`), and stops
before a message whose path would not be safe. What another copy adds to a message that was sent already is sent after
it: whoever got it must know these numbers before anything depends on them.

A message that came from the direction of a target was numbered for it by somebody between, or beyond. If that one is
dead, it is sent in its place, as it would have sent it: with the numbers up to its own, and none of those behind it.
"""

from resprout.order.vector_clock import Changes
from resprout.stacks.locamu.copies import Copies, Copy
from resprout.stacks.locamu.identifiers import Path, as_sent, cut_after, is_safe, leading_to
from resprout.stacks.locamu.messages import Carried, MissingRequest
from resprout.stacks.locamu.past import Past
from resprout.stacks.locamu.tree import SafeTree
from resprout.stacks.shell.outbox import Outbox
from resprout.stacks.shell.passing import Passing


class _Stream:
    """To one target, in one session."""

    __slots__ = ("flows", "sent", "told")

    def __init__(self) -> None:
        self.flows = False
        """The target has said where it stands."""
        self.sent = 0
        """The last number."""
        self.told: dict[tuple[str, str], int] = {}
        """The dependencies of all messages so far."""


class Streams:
    def __init__(self, tree: SafeTree, past: Past, copies: Copies, passing: Passing, outbox: Outbox) -> None:
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
        """What it lacks: of the dead first, which whatever follows may depend on."""
        if name in self._tree.active and (stream := self._streams.get(name)) is not None and stream.flows:
            for copy in self._copies.lacking(name):
                self.send_for_the_dead(copy, name)
            self.flow(name)

    def _ask(self, name: str) -> None:
        senders = [one for one in self._near.reach if self._near.is_within(self._near.faults + 1, one, name)]
        received = [(one, self._past.upto(one)) for one in (*senders, name)]
        self._outbox.send(name, MissingRequest(tuple(dict.fromkeys([one for one in received if one[1]]))))

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

    def send_again(self, copy: Copy, news: Path) -> None:
        """Other copies have brought these entries, to whoever was sent it without them."""
        for name in self._tree.active:
            stream, number = self._streams.get(name), copy.numbers.get(name)
            if stream is None or not stream.flows or number is None:
                continue
            was_sent = number <= max(stream.sent, self._copies.counts.get((self._near.name, name), 0))
            if was_sent and not self._near.shared(name).isdisjoint(news):
                self._send(name, copy, self._path(copy, name), self._all(copy, name))
            self.flow(name)

    def send_for_the_dead(self, copy: Copy, name: str) -> None:
        if copy.branch is None or copy.branch != self._near.branch(name):
            return
        for one, target in sorted(copy.lacking):
            if target == name and one in self._tree.dead and one in copy.path:
                self.send_as(copy, one, name)

    def send_as(self, copy: Copy, sender: str, name: str) -> None:
        """As that one would have sent it."""
        before = cut_after(copy.path, sender)
        numbers = before.pop(sender)
        passed_over = self._between(sender, name)
        path = leading_to(before, sender, numbers, passed_over, self._near.faults)
        if is_safe(path, self._near.faults):
            self._send(name, copy, path, self._all(copy, name))

    def for_the_dead(self, copy: Copy) -> None:
        """It has just come, and who should pass it on to these is dead."""
        for name in self.flowing:
            self.send_for_the_dead(copy, name)

    def relay(self, copy: Copy) -> None:
        """A repeat of what everybody here has: the numbers that it brings are news to some all the same."""
        for name in self.flowing:
            if self._near.branch(name) != copy.branch:
                for sender, numbers in copy.path.items():
                    if numbers.get(name, 0) > self._copies.counts.get((sender, name), 0):
                        self.send_as(copy, sender, name)

    # -- headers -------------------------------------------------------------------------------------------------------

    def _path(self, copy: Copy, name: str) -> Path:
        near = self._near
        return leading_to(copy.path, near.name, copy.numbers, near.between(name), near.faults)

    def _between(self, one: str, other: str) -> tuple[str, ...]:
        return self._near.path_between(one, other)[1:-1]

    def _send(self, name: str, copy: Copy, path: Path, dependencies: Changes) -> None:
        item = copy.item
        sent = as_sent(path, self._near.shared(name))
        self._passing.pass_on(name, item, Carried(item.bundle, item.hops + 1, sent, dependencies))

    def _changed(self, stream: _Stream, copy: Copy, name: str) -> Changes:
        """Of its dependencies, what the receiver was not told with one before."""
        told = stream.told
        entries = [one for one in self._entries(copy, name) if one[1] > told.get(one[0], 0)]
        told.update(entries)
        return _by_sender(entries)

    def _all(self, copy: Copy, name: str) -> Changes:
        return _by_sender(self._entries(copy, name))

    def _entries(self, copy: Copy, name: str) -> list[tuple[tuple[str, str], int]]:
        near, known = self._near, self._near.shared(name)
        own = copy.toward.get(near.branch(name), {})
        entries = [(pair, number) for pair, number in copy.depends.items() if pair[0] in known and pair[1] in known]
        entries += [((near.name, target), number) for target, number in own.items() if target in known]
        return entries


def _by_sender(entries: list[tuple[tuple[str, str], int]]) -> Changes:
    found: dict[str, list[tuple[str, int]]] = {}
    for (sender, target), number in entries:
        found.setdefault(sender, []).append((target, number))
    return tuple([(sender, tuple(targets)) for sender, targets in found.items()])
