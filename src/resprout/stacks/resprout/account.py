"""What a broker of the default stack says of itself to people and monitors."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec

from resprout.edge.broker.consumers import PREFIX, HeldDurable
from resprout.filters.predicate import topic_matches
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.parts import BrokerParts
from resprout.stacks.resprout.pauses import PauseSeen
from resprout.stacks.status import (
    DurableConsumer,
    DurableSeen,
    HeldPublisher,
    MemberSeen,
    PausedSubscriber,
    RepairSeen,
    StackStatus,
    TopicReaders,
    readers_here,
)

NOT_BELIEVED: Final = "it said what is for others to say, and was not believed"
NEVER_SAID: Final = "it passed on what a client here never said"
CONSUMERS_TOLD: Final = 100
"""Of one durable subscription."""
FILTERS_TOLD: Final = 3
"""Of one subscriber, in a line for people."""
OUT_OF_BOUNDS: Final = "it stated a number beyond its bound"
NO_CLOCK: Final = "it passed on a stamp that no clock can have reached"
NO_NEIGHBOUR: Final = "it spoke as a neighbour, and is none"


def status_of(parts: BrokerParts, from_non_neighbours: int, out_of_bounds: int) -> StackStatus:
    """`from_non_neighbours`: messages for neighbours that came from others. `out_of_bounds`: peers that were cut off
    for a number beyond its bound."""
    life, view = parts.life, parts.life.view
    dead = [name for name in view.places if name != view.name and view.is_dead(name) and not view.is_replaced(name)]
    repairs: dict[tuple[str, ...], RepairSeen] = {}
    for name in dead:
        component = tuple(sorted(view.component(name)))
        repairs.setdefault(component, RepairSeen(component, view.coordinator(component)))
    return StackStatus(
        serving=parts.served.serving,
        parent=view.parent if life.attached else msgspec.UNSET,
        neighbours=tuple(view.neighbours),
        members=tuple(
            [
                MemberSeen(place.name, place.incarnation, place.address, place.parent, place.name in dead)
                for place in view.places.values()
                if place.name != view.name
            ]
        ),
        silent=parts.council.status(life.now_us).unheard,
        repairs=tuple(repairs.values()),
        log_bytes=parts.log.bytes_held,
        log_bundles=len(parts.log.entries),
        log_bytes_max=life.options.log_room,
        spill=parts.spilling.status(),
        paused=tuple([_paused(pause, life.now_us) for pause in parts.pauses.seen]),
        held=tuple(_held(parts)),
        unread={name: session.owed_bytes for name, session in parts.sessions.all.items() if session.owed_bytes},
        slow_consumers=parts.shares.slow_consumers,
        dropped_messages=parts.shares.dropped_messages,
        notices=tuple(_notices(parts)),
        durables=tuple([_durable(held, life) for held in islice(parts.durables.consumers.held.values(), 4_096)]),
        refused={
            reason: count
            for reason, count in (
                (NOT_BELIEVED, parts.council.unbelieved + parts.pauses.unbelieved),
                (NEVER_SAID, parts.forwarding.forged),
                (NO_NEIGHBOUR, from_non_neighbours),
                (OUT_OF_BOUNDS, out_of_bounds),
                (NO_CLOCK, parts.clock.limited),
            )
            if count
        }
        | parts.sessions.quotas.refused,
    )


def _durable(held: HeldDurable, life: BrokerLife) -> DurableSeen:
    queue, terms = held.queue, held.terms
    retry, retries = terms.retry, queue.retries
    consumers = list(queue.consumers.values())
    unacked = sum([consumer.count for consumer in consumers])
    delayed = sum([len(portion.offsets) for portion in retries.aside]) - len(retries.dead) - len(retries.following)
    oldest_us = queue.oldest_us()
    return DurableSeen(
        held.name, life.seat.name, terms.filter, terms.group, terms.when_full.name.lower(), terms.where, held.owner,
        retry.max_deliver if retry is not None else 0,
        retry.ack_wait_us / 1e6 if retry is not None else 0.0,
        retry.topic if retry is not None else "",
        tuple([DurableConsumer(one.session.name, one.count) for one in consumers[:CONSUMERS_TOLD]]),
        len(consumers),
        queue.waiting + unacked + delayed + len(retries.dead) + len(retries.following),
        queue.waiting, unacked + len(retries.following), delayed, len(retries.dead),
        queue.session.owed_bytes,
        round((life.now_us - oldest_us) / 1e6, 1) if oldest_us else 0.0,
        retries.redeliveries, retries.dead_letters, queue.drops.messages,
        retries.repeats.dropped, held.follow_ups,
    )  # fmt: skip


def _paused(pause: PauseSeen, now_us: int) -> PausedSubscriber:
    reader, durable = pause.reader, pause.reader.reader.startswith(PREFIX)
    name = reader.reader[len(PREFIX) :] if durable else reader.reader
    seconds = round((now_us - pause.since_us) / 1e6, 1)
    return PausedSubscriber(name, pause.broker, durable, reader.filters, reader.bytes, seconds)


def _held(parts: BrokerParts) -> Iterator[HeldPublisher]:
    for name in dict.fromkeys((*parts.charges.paused_for, *parts.pressure.holding)):
        session, pause = parts.sessions.all.get(name), parts.charges.paused_for.get(name)
        if session is not None:
            charged = parts.log.local.get(name, 0) + session.waiting_bytes
            reason = pause.reason if pause is not None else "waits until other brokers have what it published"
            yield HeldPublisher(name, charged, reason)


def _notices(parts: BrokerParts) -> Iterator[str]:
    life, me = parts.life, parts.life.seat.name
    for pause in parts.pauses.seen:
        if pause.broker == me:
            one = _paused(pause, life.now_us)
            kind = "durable subscription" if one.durable else "subscriber"
            filters = ", ".join(one.filters[:FILTERS_TOLD]) + (", ..." if len(one.filters) > FILTERS_TOLD else "")
            yield (
                f"{kind} {one.name} has {one.bytes / (1 << 20):.1f} MiB unread of {filters}: "
                f"publishers of these topics have waited for {one.seconds:.0f} s"
            )
    for held in _held(parts):
        yield f"publisher {held.name} {held.reason} ({held.bytes / (1 << 20):.1f} MiB wait here)"
    yield from parts.shares.recent_lines()


def readers_of(parts: BrokerParts, topic: str) -> TopicReaders:
    index = parts.interest.index
    onward = [
        name for name in parts.links if any(topic_matches(one.filter, topic) for one in index.predicates_of(name))
    ]
    return msgspec.structs.replace(readers_here(parts.sessions, topic), onward=tuple(onward))
