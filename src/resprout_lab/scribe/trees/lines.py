"""What the trees of a broker ask of their owner, and tell it."""

from typing import Protocol

from resprout.core.contract import Outcome, ProtocolMessage, Timer
from resprout_lab.scribe.trees.messages import AskMissed, Scribed


class TreeGrown(Outcome, frozen=True):
    """This broker is in the tree of the topic."""

    topic: str


class TreeSkipped(Outcome, frozen=True):
    """Publications of the topic up to this position will never come here: nobody keeps them any more."""

    topic: str
    position: int


class BeatDue(Timer, frozen=True):
    """When roots give signs of life, and others look whether they have heard one."""

    @property
    def background(self) -> bool:
        return True


class JoinOverdue(Timer, frozen=True):
    """When to ask again for a parent in the tree of a topic."""

    topic: str


class TreeLines(Protocol):
    @property
    def now_us(self) -> int: ...
    def next_hop(self, topic: str) -> str | None:
        """The next one on the way to the root; None while there is no way."""

    def rooted(self, topic: str, root: str) -> None:
        """The tree says who leads the topic."""

    def say(self, name: str, message: ProtocolMessage) -> None: ...
    def push(self, name: str, scribed: Scribed) -> None:
        """A publication, to a child."""

    def ask_root(self, missed: AskMissed) -> None:
        """Again and again, for as long as something is `missed`."""

    def spread_again(self, topic: str, after: int) -> None:
        """By the root: from there on (`Trees.spread`)."""

    def spread_upto(self, topic: str) -> None:
        """To the root: the whole tree has come further (`Trees.floor`)."""

    def is_sole_root(self, topic: str) -> bool:
        """Of this broker, which is the root as far as it knows: nobody else can be, now."""

    def deliver(self, scribed: Scribed, source: str | None) -> None:
        """Each in its turn; to whoever wants it here. `source`: who brought it, None for the root itself."""

    def wake(self, timer: Timer, after_us: int) -> None: ...
    def let_sleep(self, timer: Timer) -> None: ...
    def tell(self, outcome: Outcome) -> None: ...
