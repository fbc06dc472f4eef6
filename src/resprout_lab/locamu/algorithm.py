"""Algorithm 1 of the thesis at one node *i* (section 3.8), by the names of its procedures, with corrections L1 to L6.

`record` is the part of RECEIVE that must survive a crash: the test for a duplicate, UPDATENODESTATE, MERGEIDENTIFIERS
and FORWARD without its transmission. A node that starts again calls it for everything that is in its journal.

To each target the messages of *i* form a *stream*, by the numbers that *i* gave them for that target. A stream flows
while the target is an active connection, from where the target says that it stands (`MissingRequest`). It stops before
a message whose path would not be safe.

*Retransmission* (section 3.8.6). A message that came from the direction of a target was numbered for it by a node
between or beyond. If *i* or the target does not hear that node, or that node has bypassed the target, *i* sends the
message in its place (figure 3.10): with the identifiers up to those of that node, and none behind it (figure 3.9).
"""

from typing import NamedTuple, Protocol

from resprout.core.errors import PeerError
from resprout.core.seen import Seen
from resprout.stacks.peers import Outbox
from resprout_lab.blocks.causal_order import Changes, HoldBack, as_changes, check_changes
from resprout_lab.blocks.groups import GroupRoutes
from resprout_lab.blocks.retention import KeptItem, Passing, Retention
from resprout_lab.locamu.copies import SentMessage, SentSet
from resprout_lab.locamu.messages import Carried, MissingRequest
from resprout_lab.locamu.past import (
    CountedPair,
    CountedPath,
    Past,
    as_sent,
    cut_after,
    each,
    is_safe,
    leading_to,
    read_path,
)
from resprout_lab.locamu.tree import SafeTree


class Copy(NamedTuple):
    """One copy of *m*, as it came."""

    item: KeptItem
    branch: str | None
    """The direction that it came from; None: it was published here."""
    path: CountedPath
    """*I_m*"""
    dependencies: Changes
    """*D_m*"""
    follows: tuple[str, int]
    """*j*, and the number of its message to *i* before this one."""
    depends: tuple[tuple[str, int], ...]
    """(*k*, *D_m[k][i]*)"""


class AlgorithmPort(Protocol):
    """The node around the algorithm."""

    def deliver(self, message: SentMessage) -> None:
        """DELIVER: it is in causal order."""

    def write(self, copy: Copy, numbers: dict[str, int]) -> None:
        """Persist what was processed, before another node can know of it."""

    def refused(self, name: str) -> None:
        """Note that a message of this neighbour was dropped, because too many wait. Messages of others behind it may be
        in order: the session begins anew only when they have come."""

    def processed(self, copy: Copy, senders: list[str]) -> None:
        """Report that these have one more message here."""


class _Stream:
    """To one target, in one session."""

    __slots__ = ("flows", "sent", "told")

    def __init__(self) -> None:
        self.flows = False
        """The target has said where it stands."""
        self.sent = 0
        """The last number."""
        self.told: dict[CountedPair, int] = {}
        """The dependencies of all messages so far (section 3.9.3)."""


class Algorithm:
    def __init__(
        self,
        port: AlgorithmPort,
        tree: SafeTree,
        groups: GroupRoutes,
        kept: Retention,
        passing: Passing,
        outbox: Outbox,
        held_max: int,
    ) -> None:
        self._groups = groups
        self._port = port
        self._tree = tree
        self._near = tree.near
        self._kept = kept
        self._passing = passing
        self._outbox = outbox
        self.past = Past(tree.near.name)
        """*P_i* and *R_i*"""
        self.sent = SentSet(tree.near, kept)
        self.buffer: HoldBack[str, Copy] = HoldBack(self._missing, held_max)
        self.published = Seen()
        """What clients of this node have published."""
        self._streams: dict[str, _Stream] = {}

    def has_never_heard_of(self, name: str) -> bool:
        """Nothing of it or by it was ever processed: a node that comes under this name may begin."""
        return not (self.past.upto(name) or self.sent.counts.get((self._near.name, name)))

    # -- PUBLISH, RECEIVE and UNBUFFER (lines 25 to 49) ----------------------------------------------------------------

    def publish(self, item: KeptItem) -> None:
        self._process(Copy(item, None, {}, (), ("", 0), ()))

    def receive(self, name: str, message: Carried) -> None:
        copy = self._read(name, message)
        if not self.buffer.put(copy):
            self._port.refused(name)
            return
        self._kept.keep(copy.item)
        self.unbuffer()

    def _missing(self, copy: Copy) -> tuple[str, int] | None:
        """Line 33: a message that must be processed before, in the order of *j* or in causal order (L3)."""
        if copy.follows[1] > self.past.upto(copy.follows[0]):
            return copy.follows
        return next((one for one in copy.depends if not self.past.has_received(*one)), None)

    def unbuffer(self) -> None:
        while (copy := self.buffer.take()) is not None:
            self._process(copy)
            senders = [sender for sender, numbers in copy.path.items() if self._near.name in numbers]
            for sender in senders:
                self.buffer.reached(sender, max(self.past.upto(sender), copy.path[sender][self._near.name]))
            self._port.processed(copy, senders)
            self._kept.let_go(copy.item)

    def _process(self, copy: Copy) -> None:
        """Lines 37 to 45: *m* is in order."""
        message, merged = self.record(copy)
        self._port.write(copy, message.numbers if merged is None else {})
        if merged is None:
            self._transmit_all(message)
            self._port.deliver(message)
        elif merged:  # otherwise two nodes that bypass the same one would send each other the same for ever
            self._try_send_unsent(message, merged)

    def record(self, copy: Copy, numbers: dict[str, int] | None = None) -> tuple[SentMessage, CountedPath | None]:
        """Return *m* as it is kept; and of a duplicate the identifiers that earlier copies did not have. `numbers`:
        those that *i* gave it in an earlier life."""
        is_duplicate = self.past.knows_any(copy.path)  # line 38, before UPDATENODESTATE (L1)
        before, toward = self._update_node_state(copy)
        if is_duplicate:
            return self._merge_identifiers(copy)
        return self._forward(copy, before, toward, numbers), None

    # -- UPDATENODESTATE (lines 14 to 19) and FORWARD (lines 6 to 13) --------------------------------------------------

    def _update_node_state(self, copy: Copy) -> tuple[dict[CountedPair, int], dict[str, dict[str, int]]]:
        """Return *P_i* as a forwarded *m* depends on it, without *m* itself (L2), and the numbers of *i* by branch,
        likewise."""
        self.past.depend_on(copy.dependencies, self._near)
        before = dict(self.past.depends), dict(self.past.toward)
        self.past.add(each(copy.path))
        return before

    def _forward(
        self,
        copy: Copy,
        before: dict[CountedPair, int],
        toward: dict[str, dict[str, int]],
        numbers: dict[str, int] | None,
    ) -> SentMessage:
        """But for line 12, (RE)TRANSMIT, which follows when *m* is written."""
        if numbers is None:
            numbers = self.past.number(self._targets(copy))  # lines 9 to 11
        self.past.sent(numbers, self._named_toward(copy, numbers))
        if copy.branch is None:
            self.published.raise_to(copy.item.bundle.origin, copy.item.bundle.last)
        message = SentMessage(copy.item, copy.branch, copy.path, numbers, before, toward)  # line 8
        self.sent.put(message)  # line 13
        return message

    def _targets(self, copy: Copy) -> list[str]:
        """T(*m*, *i*): those ahead that take part in the group of *m*, here or where an earlier forwarder numbered it.
        The table of that one may be older: who was numbered for then waits for *m*."""
        ahead, taking_part = self._near.targets(copy.branch), set(self._groups.taking_part(copy.item.bundle))
        taking_part.update([target for numbers in copy.path.values() for target in numbers])
        return [name for name in ahead if name in taking_part]

    def _named_toward(self, copy: Copy, numbers: dict[str, int]) -> dict[str, dict[str, int]]:
        """By branch: the numbers of *i* on which messages into it depend from now on (L6). Those in a branch that *m*
        goes into have *m*. Those in any other depend on the numbers of the forwarder before *i*, which has *m*; where
        there are none, on those of *i*."""
        near = self._near
        into = {near.branch(target) for target in numbers}
        known = {target for counted in copy.path.values() for target in counted}
        own = {one: no for one, no in numbers.items() if near.reach[one] <= near.faults and one not in known}
        return {one: numbers if one in into else own for one in near.own.neighbours if one != copy.branch}

    # -- MERGEIDENTIFIERS and TRYSENDUNSENTMESSAGES (lines 20 to 24, and 41) -------------------------------------------

    def _merge_identifiers(self, copy: Copy) -> tuple[SentMessage, CountedPath]:
        message = self.sent.find(copy.path)
        if message is not None:
            return message, self.sent.merge(message, copy.path)
        message = SentMessage(copy.item, copy.branch, copy.path)  # all had it, but for the numbers of this copy
        self.sent.put(message)
        return message, copy.path

    def _try_send_unsent(self, message: SentMessage, merged: CountedPath) -> None:
        """Send these identifiers to everybody who was sent *m* without them, and *m* where the path is safe now."""
        for name in self.flowing:
            if message.branch == self._near.branch(name):
                self._send_in_place(message, name)
            elif not self._near.shared(name).isdisjoint(merged):
                was_sent = max(self._streams[name].sent, self.sent.counts.get((self._near.name, name), 0))
                if message.numbers.get(name, 0) <= was_sent:
                    self._send_again(message, name)
            self.transmit(name)

    # -- (RE)TRANSMIT (lines 1 to 5) -----------------------------------------------------------------------------------

    @property
    def flowing(self) -> list[str]:
        """The active connections that have said where they stand."""
        return [name for name in self._tree.active if (stream := self._streams.get(name)) and stream.flows]

    def _transmit_all(self, message: SentMessage) -> None:
        for name in self.flowing:
            if message.branch == self._near.branch(name):
                self._send_in_place(message, name)
            self.transmit(name)

    def transmit(self, name: str) -> None:
        """Send everything that this target has not been sent."""
        stream = self._streams.get(name)
        if stream is None or not stream.flows or name not in self._tree.active:
            return
        last = self.past.counts.get(name, 0)
        number = max(stream.sent, self.sent.counts.get((self._near.name, name), 0))
        while number < last:
            number += 1
            message = self.sent.numbered(name, number)
            if message is not None:
                path = self._path(message, name)
                if not is_safe(path, self._near.faults):
                    return
                self._send(name, message, path, self._changed(stream, message, name))
            stream.sent = number

    # -- Missing Messages Request and retransmission (section 3.8.6) ---------------------------------------------------

    def begin(self, name: str) -> None:
        """A session begins: ask for what is missing."""
        self._streams[name] = _Stream()
        received = [(one, upto) for one in self._near.reach if (upto := self.past.upto(one))]
        self._outbox.send(name, MissingRequest(tuple(received)))

    def end(self, name: str) -> None:
        self._streams.pop(name, None)
        self._passing.end(name)

    def asked(self, name: str) -> None:
        """The target has said where it stands."""
        self._streams[name].flows = True
        self.retransmit(name)
        if name in self._tree.active:
            for message in self.sent.lacking_behind(name):  # it may have a copy without all numbers of i
                self._send_again(message, name)

    def retransmit(self, name: str) -> None:
        """Send an active connection what it lacks: first what it was sent before and what nodes that are not heard owe
        it. The rest may depend on that."""
        if name in self._tree.active and (stream := self._streams.get(name)) is not None and stream.flows:
            has = self.sent.counts.get((self._near.name, name), 0)
            for message in self.sent.lacking(name):
                if message.branch == self._near.branch(name):
                    self._send_in_place(message, name)
                elif message.numbers.get(name, 0) <= has:
                    self._send_again(message, name)
            self.transmit(name)

    def _send_again(self, message: SentMessage, name: str) -> None:
        """Send it with all that is known of its path. When all had it, the numbers of *i* are not kept: what has come
        since is sent as it came."""
        if name in message.numbers:
            self._send(name, message, self._path(message, name), self._all(message, name))
        elif any(target == name for _, target in message.lacking):
            self._send_as_last(message, name)

    def _send_in_place(self, message: SentMessage, name: str) -> None:
        was_bypassed = name in message.path and not message.path[name]
        if any(
            target == name and (was_bypassed or self._tree.cannot_reach(sender, name))
            for sender, target in message.lacking
        ):
            self._send_as_last(message, name)

    def _send_as_last(self, message: SentMessage, name: str) -> None:
        """Send it as the last node on its path would have that numbered it for this target. A copy of an earlier one
        may have no identifier in common with what the target has."""
        sender = next(one for one in reversed(message.path) if name in message.path[one])
        before = cut_after(message.path, sender)
        numbers = before.pop(sender)
        passed_over = self._near.path_between(sender, name)[1:-1]
        path = leading_to(before, sender, numbers, passed_over, self._near.faults)
        if is_safe(path, self._near.faults):
            self._send(name, message, path, self._all(message, name))

    # -- I_m and D_m ---------------------------------------------------------------------------------------------------

    def _read(self, name: str, message: Carried) -> Copy:
        near = self._near
        check_changes(message.identifiers)
        check_changes(message.dependencies)
        path = read_path(message.identifiers)
        if not path or tuple(path) != near.way_from(next(iter(path))) or len(path) != len(message.identifiers):
            raise PeerError(f"{message.bundle!r} cannot have come on that path")
        sender = next((one for one in reversed(path) if path[one]), None)
        if sender is None or near.name not in path[sender]:
            raise PeerError(f"{message.bundle!r} is not for this broker")
        # What another node sends in the place of j comes in the order of that node: messages that j had counted before
        # may have died with it, and come by the numbers of others.
        follows = (sender, path[sender][near.name] - 1 if sender == name else 0)
        depends = [
            (one, number)
            for one, targets in message.dependencies
            for target, number in targets
            if target == near.name and one in near
        ]
        item = KeptItem(message.bundle, message.hops, name, False)
        return Copy(item, next(reversed(path)), path, message.dependencies, follows, tuple(depends))

    def _path(self, message: SentMessage, name: str) -> CountedPath:
        near = self._near
        return leading_to(message.path, near.name, message.numbers, near.path(name)[1:-1], near.faults)

    def _send(self, name: str, message: SentMessage, path: CountedPath, dependencies: Changes) -> None:
        item = message.item
        sent = as_sent(path, self._near.shared(name))
        self._passing.pass_on(name, item, Carried(item.bundle, item.hops + 1, sent, dependencies))

    def _changed(self, stream: _Stream, message: SentMessage, name: str) -> Changes:
        """Return the dependencies that the receiver was not told with an earlier message."""
        told = stream.told
        entries = [one for one in self.entries_for(message, name) if one[1] > told.get(one[0], 0)]
        told.update(entries)
        return as_changes(entries)

    def _all(self, message: SentMessage, name: str) -> Changes:
        return as_changes(self.entries_for(message, name))

    def entries_for(self, message: SentMessage, name: str) -> list[tuple[CountedPair, int]]:
        near, known = self._near, self._near.shared(name)
        own = message.toward.get(near.branch(name), {})
        entries = [(pair, number) for pair, number in message.depends.items() if pair[0] in known and pair[1] in known]
        entries += [((near.name, target), number) for target, number in own.items() if target in known]
        return entries
