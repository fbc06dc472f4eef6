"""What a client has sent and no broker has called safe: kept exactly as it was sent, to be sent again elsewhere.

Brokers tell old from new by numbers and take bundles whole, so a bundle that is sent again has the same boundaries, the
same stamp and the same place among the others.
"""

from collections import deque

from resprout.edge.messages import Publish


class Unconfirmed:
    """In the order of sending, over all streams."""

    def __init__(self) -> None:
        self._sent: dict[int, Publish] = {}
        self._streams: dict[str, deque[tuple[int, int]]] = {}
        """By stream: (last number of the bundle, place in the order of sending), both rising."""
        self._count = 0
        self.again: deque[int] = deque()
        """What is to be sent again, by its place in the order of sending."""
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._sent)

    def add(self, publish: Publish) -> None:
        bundle = publish.bundle
        self._count += 1
        self._sent[self._count] = publish
        waiting = self._streams.get(bundle.stream)
        if waiting is None:
            waiting = self._streams[bundle.stream] = deque()
        waiting.append((bundle.last, self._count))
        self.bytes += bundle.cost

    def confirm(self, stream: str, seq: int, first: int = 1) -> None:
        """Everything of the stream up to this number is safe, or everything from `first` on."""
        waiting = self._streams.get(stream)
        if first > 1 and waiting and waiting[0][0] <= seq:
            self.drop(stream, first, seq)
            return
        while waiting and waiting[0][0] <= seq:
            self._forget(waiting.popleft()[1])

    def drop(self, stream: str, first: int, last: int) -> None:
        """Nobody is to be asked for these again: they are safe, or will never be delivered."""
        kept: deque[tuple[int, int]] = deque()
        for end, place in self._streams.get(stream, ()):
            if end <= last and self._sent[place].bundle.first >= first:
                self._forget(place)
            else:
                kept.append((end, place))
        self._streams[stream] = kept

    def send_again(self) -> None:
        """Another session: everything is to be sent once more, before anything new."""
        self.again = deque(self._sent)

    def next_again(self) -> Publish | None:
        """The oldest that is to be sent again and still matters."""
        while self.again:
            publish = self._sent.get(self.again.popleft())
            if publish is not None:
                return publish
        return None

    def _forget(self, place: int) -> None:
        self.bytes -= self._sent.pop(place).bundle.cost
