"""What a client does with logs: `LogClient` is the part of the client that subscribes to them."""

from weakref import WeakSet

import msgspec

from resprout.client.errors import ClosedError, TellGap
from resprout.client.following import LogFollower, LogInbox
from resprout.client.inbox import Inbox
from resprout.client.past_events import PAGE_BYTES, AskingClient, Offset, Start, read_request
from resprout.core.errors import UnsupportedSubscriptionError
from resprout.core.limits import check_name
from resprout.edge.client.machine import ClientMachine
from resprout.logs.declaration import LOG_PREFIX
from resprout.net.host import Host


def log_of(log: str | None, start: Start) -> str | None:
    """Return the name of the log that a subscription reads: as it is given, or as its offset names it."""
    if log is not None:
        return check_name(log, "log: name of a log")
    if isinstance(start, Offset) and start.journal.startswith(LOG_PREFIX):
        return start.journal.removeprefix(LOG_PREFIX)
    return None


class LogClient(AskingClient):
    def __init__(self, machine: ClientMachine, host: Host, copies: int) -> None:
        super().__init__(machine, host, copies)
        self._followed: WeakSet[LogInbox] = WeakSet()
        """Inboxes that read logs."""

    def _missing(self, filter: str) -> TellGap:
        raise NotImplementedError

    async def _follow(
        self,
        filter: str,
        where: str | None,
        log: str,
        start: Start,
        durable: str | None,
        group: str | None,
        allow_gaps: bool,
    ) -> Inbox:
        self._check_open()
        if group is not None or durable is not None:
            argument = f"group={group!r}" if group is not None else f"durable={durable!r}"
            raise UnsupportedSubscriptionError(f"{argument}: only plain subscriptions read a log")
        request = read_request(filter, where, start, PAGE_BYTES, allow_gaps, log)
        follower = LogFollower(self.read_events, msgspec.structs.replace(request, whole=True), self._missing(filter))
        await follower.open()
        inbox = LogInbox(self._loop, follower)
        self._followed.add(inbox)
        inbox.begin()
        return inbox

    def _end_followed(self, failure: str | None, error: type[ClosedError]) -> None:
        """The client is closed, or its session is over."""
        for inbox in list(self._followed):
            inbox.end(failure, error)
