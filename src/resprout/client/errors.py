"""What can go wrong for a user of the client, and whether it is certain."""

from resprout.client.events import gap_text
from resprout.core.errors import ResproutError
from resprout.core.message import Message
from resprout.edge.messages import EventGap


class ClientError(ResproutError):
    """Base of what a client raises besides UsageError."""


class ConnectError(ClientError):
    """No session with a broker could be made.

    `hopeless`: trying again cannot help; the host is no name at all, or what answers there is no broker of this kind.
    """

    def __init__(self, reason: str, hopeless: bool = False) -> None:
        super().__init__(reason)
        self.hopeless = hopeless


class ClosedError(ClientError):
    """The client is closed, or its session with the network is over for good."""


class SlowConsumerError(ClosedError):
    """The broker ended the session: this client did not read what it subscribed to, and its share was full. The text
    has the numbers. `when_full` of `subscribe` chooses another policy."""


class PublishError(ClientError):
    """A publication did not reach the receipt that was waited for.

    `definite`: it has not been delivered to anybody and never will be. Otherwise it may still be delivered.
    """

    def __init__(self, reason: str, definite: bool) -> None:
        super().__init__(f"{reason} ({'it will not be delivered' if definite else 'it may still be delivered'})")
        self.reason = reason
        self.definite = definite


class SubscribeError(ClientError):
    """The network refused a subscription."""


class DifferentSubscriptionError(SubscribeError):
    """A durable subscription of this name is there, and asks for something else."""


class MessagesMissingError(SubscribeError):
    """What a durable subscription had kept was lost with the brokers that had it. Whoever subscribes again goes on with
    what comes from now on."""


class FencedError(ClosedError):
    """Another consumer has taken over the durable subscription, with what this one has not acknowledged."""


class NobodyListensError(ClientError):
    """Nobody has a confirmed subscription to the topic of a request: nothing was published."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"nobody listens to {topic}")
        self.topic = topic


class NoReplyError(ClientError, TimeoutError):
    """No reply came in time. Whether the request was served is not known."""


class RequestFailedError(ClientError):
    """Whoever serves the request says that it failed; the text is theirs."""


class MistypedPayloadError(ClientError, ValueError):
    """A message does not hold what was said to be in it; `message` is the one."""

    def __init__(self, message: Message, reason: str) -> None:
        super().__init__(f"{message.topic}: {reason}")
        self.message = message
        self.reason = reason


class ForgetError(ClientError):
    """The network was not told to forget the brokers, or it is not known whether it was; the text says why."""


class ReadError(ClientError):
    """Nothing of the past was read; the text says why."""


class GapError(ReadError):
    """Events of the past are missing here: `gap` says which. Nothing before the gap is lost by this error.

    Read with `allow_gaps=True` to go on without them, or begin at `Offset(journal, gap.following)`, behind the gap.
    """

    def __init__(self, journal: str, gap: EventGap) -> None:
        super().__init__(
            f"{gap_text(journal, gap)}; allow_gaps=True (--allow-gaps) goes on without them,"
            f" {journal}@{gap.following} begins behind them"
        )
        self.journal = journal
        self.gap = gap
