"""Commands of feeders at the leader of a log: proposed in the order of their numbers, and confirmed once applied."""

from typing import Final

from resprout.logs.messages import LogFed, LogFeed, LogPort
from resprout.logs.state import LogState


class FeedIntake:
    def __init__(self, log: str, state: LogState, port: LogPort) -> None:
        """`log`: the name of the log among brokers."""
        self._log = log
        self._state = state
        self._port = port
        self._proposed: dict[str, int] = {}
        """Number of the last command that this leader has proposed, by feed."""
        self.feeders: Final[dict[str, str]] = {}
        """Broker of the feeder, by feed."""
        self._fed: dict[str, int] = {}
        """Number of the last command that was confirmed to the feeder, by feed."""

    def hear(self, broker: str, message: LogFeed) -> bool:
        """Handle a command of a feeder, at a leader. Returns whether it is the next one to propose."""
        feed, number = message.feed, message.number
        for other in [other for other, at in self.feeders.items() if at == broker and other != feed]:
            del self.feeders[other]  # a broker has one feeder of a log
        self.feeders[feed] = broker
        applied = self._state.feeds.get(feed, 0)
        expected = max(self._proposed.get(feed, 0), applied) + 1
        if number <= applied:
            self._port.send(broker, LogFed(self._log, feed, applied))
        elif number > expected:
            self._port.send(broker, LogFed(self._log, feed, applied, expected))
        return number == expected and number > applied

    def proposed(self, feed: str, number: int) -> None:
        """Note that the command with this number is proposed."""
        self._proposed[feed] = number

    def led(self) -> None:
        """Another replica leads, or this one does anew: proposals may be lost."""
        self._proposed.clear()

    def tell(self, is_leading: bool) -> None:
        """Confirm to each feeder, if this replica leads, the commands that a majority has."""
        if not is_leading:
            self._fed.clear()
            return
        for feed, broker in list(self.feeders.items()):
            applied = self._state.feeds.get(feed, 0)
            if feed not in self._state.feeds and feed not in self._proposed:
                del self.feeders[feed]
            elif applied > self._fed.get(feed, 0):
                self._fed[feed] = applied
                self._port.send(broker, LogFed(self._log, feed, applied))
