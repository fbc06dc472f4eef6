"""What brokers of the default stack tell each other about durable subscriptions. Tags 75 to 77 of the wire."""

from typing import ClassVar

from resprout.core.contract import Departure, NeighbourMessage
from resprout.core.message_fields import MARK_BYTES, BoundedNumber, Marks
from resprout.edge.durable_messages import NO_DROPS, SPAN_BYTES, Drops, Spans
from resprout.stacks.resprout.durable_state import DurableState


class DurableKnown(NeighbourMessage, frozen=True, tag=75):
    """Through the tree, to everybody: a durable subscription, as it is now. Answered by `DurableHeard`."""

    leaves: ClassVar[Departure] = Departure.TURN

    state: DurableState

    @property
    def bulk(self) -> int:
        state = self.state
        names = 64 * (4 + len(state.consumers))
        marks = MARK_BYTES * (len(state.base) + len(state.done)) + SPAN_BYTES * len(state.spans)
        return marks + names + 4 * len(state.terms.filter) + 4096


class DurableHeard(NeighbourMessage, frozen=True, tag=76):
    """The sender knows that, and so does everybody behind it."""

    leaves: ClassVar[Departure] = Departure.TURN

    subscription: str
    term: BoundedNumber
    edition: BoundedNumber


class DurableDone(NeighbourMessage, frozen=True, tag=77):
    """Through the tree: up to here everything is done, and of the same origins all of these spans. What was dropped is
    done, too, and counted."""

    leaves: ClassVar[Departure] = Departure.TURN

    subscription: str
    term: BoundedNumber
    marks: Marks
    spans: Spans = ()
    drops: Drops = NO_DROPS

    @property
    def bulk(self) -> int:
        return MARK_BYTES * len(self.marks) + SPAN_BYTES * len(self.spans)

    @property
    def background(self) -> bool:
        return True


DURABLE_BROKER_MESSAGES = (DurableKnown, DurableHeard, DurableDone)
