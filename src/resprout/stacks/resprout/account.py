"""What a broker of the default stack says of itself to people and monitors."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from resprout.edge.broker.consumers import PREFIX
from resprout.filters.topics import topic_matches
from resprout.stacks.resprout.core import Core
from resprout.stacks.resprout.pauses import PauseSeen
from resprout.stacks.shell.readers import readers_here
from resprout.stacks.status import (
    HeldPublisher,
    MemberSeen,
    PausedSubscriber,
    RepairSeen,
    StackStatus,
    TopicReaders,
)

if TYPE_CHECKING:
    from resprout.stacks.resprout.broker import ResproutBroker

NOT_BELIEVED: Final = "it said what is for others to say, and was not believed"
NEVER_SAID: Final = "it passed on what a client here never said"
FILTERS_TOLD: Final = 3
"""Of one subscriber, in a line for people."""
OUT_OF_BOUNDS: Final = "it stated a number beyond its bound"
NO_CLOCK: Final = "it passed on a stamp that no clock can have reached"
NO_NEIGHBOUR: Final = "it spoke as a neighbour, and is none"


def status_of(broker: "ResproutBroker") -> StackStatus:
    core, view = broker.core, broker.core.view
    dead = [name for name in view.places if name != view.name and view.is_dead(name) and not view.is_replaced(name)]
    repairs: dict[tuple[str, ...], RepairSeen] = {}
    for name in dead:
        component = tuple(sorted(view.component(name)))
        repairs.setdefault(component, RepairSeen(component, view.coordinator(component)))
    return StackStatus(
        serving=broker.served.serving,
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
        paused=tuple([_paused(pause, core.now_us) for pause in core.pauses.seen]),
        held=tuple(_held(core)),
        unread={name: session.owed_bytes for name, session in core.sessions.all.items() if session.owed_bytes},
        slow_consumers=core.slow_consumers,
        dropped_messages=core.dropped_messages,
        notices=tuple(_notices(broker)),
        refused={
            reason: count
            for reason, count in (
                (NOT_BELIEVED, broker.council.unbelieved + core.pauses.unbelieved),
                (NEVER_SAID, core.forwarding.forged),
                (NO_NEIGHBOUR, broker.strange),
                (OUT_OF_BOUNDS, broker.out_of_bounds),
                (NO_CLOCK, core.clock.limited),
            )
            if count
        }
        | core.sessions.quotas.refused,
    )


def _paused(pause: PauseSeen, now_us: int) -> PausedSubscriber:
    reader, durable = pause.reader, pause.reader.reader.startswith(PREFIX)
    name = reader.reader[len(PREFIX) :] if durable else reader.reader
    seconds = round((now_us - pause.since_us) / 1e6, 1)
    return PausedSubscriber(name, pause.broker, durable, reader.filters, reader.bytes, seconds)


def _held(core: Core) -> Iterator[HeldPublisher]:
    for name in dict.fromkeys((*core.paused_for, *core.pressure.holding)):
        session, pause = core.sessions.all.get(name), core.paused_for.get(name)
        if session is not None:
            charged = core.log.local.get(name, 0) + session.waiting_bytes
            reason = pause.reason if pause is not None else "waits until other brokers have what it published"
            yield HeldPublisher(name, charged, reason)


def _notices(broker: "ResproutBroker") -> Iterator[str]:
    core, me = broker.core, broker.core.seat.name
    for pause in core.pauses.seen:
        if pause.broker == me:
            one = _paused(pause, core.now_us)
            kind = "durable subscription" if one.durable else "subscriber"
            filters = ", ".join(one.filters[:FILTERS_TOLD]) + (", ..." if len(one.filters) > FILTERS_TOLD else "")
            yield (
                f"{kind} {one.name} has {one.bytes / (1 << 20):.1f} MiB unread of {filters}: "
                f"publishers of these topics have waited for {one.seconds:.0f} s"
            )
    for held in _held(core):
        yield f"publisher {held.name} {held.reason} ({held.bytes / (1 << 20):.1f} MiB wait here)"
    yield from broker.shares.recent_lines()


def readers_of(broker: "ResproutBroker", topic: str) -> TopicReaders:
    core = broker.core
    index = core.interest.index
    onward = [name for name in core.links if any(topic_matches(one.filter, topic) for one in index.predicates_of(name))]
    return msgspec.structs.replace(readers_here(core.sessions, topic), onward=tuple(onward))
