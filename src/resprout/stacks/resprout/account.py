"""What a broker of the default stack says of itself to people and monitors."""

from typing import TYPE_CHECKING, Final

import msgspec

from resprout.filters.topics import topic_matches
from resprout.stacks.shell.readers import readers_here
from resprout.stacks.status import MemberSeen, RepairSeen, StackStatus, TopicReaders

if TYPE_CHECKING:
    from resprout.stacks.resprout.broker import ResproutBroker

NOT_BELIEVED: Final = "it said what is for others to say, and was not believed"
NEVER_SAID: Final = "it passed on what a client here never said"
NO_NEIGHBOUR: Final = "it spoke as a neighbour, and is none"


def status_of(broker: "ResproutBroker") -> StackStatus:
    core, view = broker.core, broker.core.view
    dead = [name for name in view.places if name != view.name and view.is_dead(name) and not view.is_replaced(name)]
    repairs: dict[tuple[str, ...], RepairSeen] = {}
    for name in dead:
        component = tuple(sorted(view.component(name)))
        repairs.setdefault(component, RepairSeen(component, view.coordinator(component)))
    return StackStatus(
        serving=broker.clients.serving,
        parent=view.parent if core.attached else msgspec.UNSET,
        neighbours=tuple(view.neighbours),
        members=tuple(
            [
                MemberSeen(place.name, place.incarnation, place.address, place.parent, place.name in dead)
                for place in view.places.values()
                if place.name != view.name
            ]
        ),
        silent=broker.council.status(core.now_us).unheard,
        repairs=tuple(repairs.values()),
        log_bytes=core.log.bytes_held,
        log_bundles=len(core.log.entries),
        log_bytes_max=core.options.log_bytes,
        spill=core.spilling.status(),
        refused={
            reason: count
            for reason, count in (
                (NOT_BELIEVED, broker.council.unbelieved),
                (NEVER_SAID, core.forwarding.forged),
                (NO_NEIGHBOUR, broker.strange),
            )
            if count
        },
    )


def readers_of(broker: "ResproutBroker", topic: str) -> TopicReaders:
    core = broker.core
    index = core.interest.index
    onward = [name for name in core.links if any(topic_matches(one.filter, topic) for one in index.predicates_of(name))]
    return msgspec.structs.replace(readers_here(core.sessions, topic), onward=tuple(onward))
