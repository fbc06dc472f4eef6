"""Durable subscriptions, judged by what all their consumers were handed together.

- Nothing is lost: what is owed (see `audit.loss`), matches, and was published after the subscription was confirmed, was
  handed to somebody. Judged of a run that came to rest with all links whole and no node frozen, if somebody consumes
  the subscription then; not where probability is promised. Where the oldest are dropped, as many may be missing as
  consumers were told to be dropped.
- It is not lost with a consumer: what nobody has acknowledged is with a consumer that is still there. Judged where the
  former is, of consumers that were gone, and others there, for `LONG_US` at the end.
- Only what was published before, and matches, is handed out.
- It is handed out once without saying that it may have been before; and never to a consumer that has acknowledged it.
- It is handed to nobody once its acknowledgement is known to all brokers: when its consumer consumed on, and nothing
  happened to any node or link, for so long that there is no doubt (`audit.history`).
- In a group, nobody is handed a message of a key of which another consumer has one that it has not acknowledged. Judged
  where nothing happened to any node or link, since whoever is not heard has what it has taken from it.
- Of messages with one topic and `message_id`, it hands out one (`audit.repeats`).
- Each consumer is handed the ordered publications of a client, and of one lane, in the order they were made (see
  `audit.causal`); in a group, those that name a common key.
"""

import itertools
from collections.abc import Iterable, Iterator
from typing import Final

from resprout.audit.causal import Delivered, overtaken_by
from resprout.audit.durable_records import DeadLetterRow, DurableRecord, HandedOut
from resprout.audit.follow_ups import check_follow_ups, is_followed
from resprout.audit.history import QUIET_US, History
from resprout.audit.interest import matches
from resprout.audit.records import NEVER, MessageId, PublicationRecord, seconds
from resprout.audit.repeats import SLACK_US, RepeatedMessages
from resprout.audit.verdict import Anomaly

RULE: Final = "durable"
NO_DURABLES: Final = "the trace holds no durable subscription"
LONG_US: Final = 8_000_000
"""A consumer that was not heard for six heartbeats counts as gone; see docs/guarantees.md."""


def check_durables(history: History, durables: Iterable[DurableRecord], owed: bytearray) -> Iterator[Anomaly]:
    """`owed`: which publications are owed, without those that have expired."""
    repeated = RepeatedMessages(history.publications)
    for each in durables:
        yield from _repeated(each, history, repeated)
        yield from _handed_rightly(each, history)
        yield from _handed_though_known(each, history)
        yield from _in_two_hands(each, history)
        yield from _in_order(each, history)
        yield from check_retries(each, history)
        yield from check_follow_ups(each, history)
        if each.is_judged_for_loss(history):
            missing = [
                *_lost(each, history, owed, repeated),
                *_lost_with_a_consumer(each, history, owed, repeated),
            ]
            if len(missing) > each.dropped:
                yield from missing


def handed_out(durables: Iterable[DurableRecord]) -> Iterator[tuple[str, MessageId, int]]:
    """Return each message that was handed out, with the consumer and the time."""
    for each in durables:
        for id, times in each.handed.items():
            yield from ((handed.life[0], id, handed.time_us) for handed in times)


def unjudged_note(unjudged: int, durables: int) -> str:
    """What is said where in so many it is not judged what is missing."""
    return f"what is missing was not judged in {unjudged} of {durables} durable subscriptions"


def _handed_rightly(each: DurableRecord, history: History) -> Iterator[Anomaly]:
    for id, times in each.handed.items():
        p = history.published(id)
        if p is None or p.row > times[0].row:
            yield _anomaly(each, history, id, times[0], "which nobody had published")
        elif each.predicate is not None and not matches(each.predicate, p):
            yield _anomaly(each, history, id, times[0], f"on {p.topic}, for which it does not ask")
        first = [handed for handed in times if not handed.is_again]
        for handed in first[1:]:
            yield _anomaly(each, history, id, handed, f"and not told that {first[0].life[0]} had been before")
        for handed in (
            () if each.ack_wait_us else times
        ):  # another copy may have been on the way when it was acknowledged
            if each.acknowledged.get((handed.life, id), handed.row) < handed.row:
                yield _anomaly(each, history, id, handed, "which it had acknowledged")


def _handed_though_known(each: DurableRecord, history: History) -> Iterator[Anomaly]:
    for id, times in each.handed.items():
        done = each.done.get(id)
        if done is None or id not in history.number_of or times[-1].time_us <= done[0][0] + QUIET_US:
            continue
        known, at_us, who = min(
            (history.calm.quiet_after(time_us, each.over.get(life, NEVER)), time_us, life[0]) for time_us, life in done
        )
        for handed in times:
            if handed.time_us > known and each.acknowledged.get((handed.life, id), NEVER) > handed.row:
                yield _anomaly(each, history, id, handed, f"which {who} had acknowledged at {seconds(at_us)}")


def _in_two_hands(each: DurableRecord, history: History) -> Iterator[Anomaly]:
    for id, handed, other, had in each.hands.found:
        if not each.ack_wait_us and history.calm.covers(had.time_us, handed.time_us):
            what = f"while {had.life[0]} had {history.naming.message(other)} of the same key"
            yield _anomaly(each, history, id, handed, what)


def _in_order(each: DurableRecord, history: History) -> Iterator[Anomaly]:
    newest: dict[tuple[object, ...], Delivered] = {}
    for handed, id in sorted((handed, id) for id, times in each.handed.items() for handed in times):
        p = history.published(id)
        if p is None or not p.ordered or (handed.is_again and each.may_come_back and not each.is_group):
            continue
        origin = (handed.life, id[0], p.lane)
        lines = [(*origin, pair) for pair in p.lines if pair[1]] if each.is_group else [origin]
        before = [overtaken_by(newest, line, id, handed.row) for line in lines]
        later = next((later for later in before if later is not None and later[0] != id), None)
        if later is not None and not _may_be_forgotten(each, history, id, handed):
            yield _anomaly(each, history, id, handed, f"after {history.naming.message(later[0])}")


def _may_be_forgotten(each: DurableRecord, history: History, id: MessageId, again: HandedOut) -> bool:
    """Whether a message of a group comes again because its consumer and its home died with its acknowledgement. Later
    messages of its key had been handed out meanwhile."""
    earlier = [handed for handed in each.handed[id] if handed.row < again.row and handed.life != again.life]
    return again.is_again and bool(earlier) and _may_be_unknown(each, history, earlier[-1], again)


def _repeated(each: DurableRecord, history: History, repeated: RepeatedMessages) -> Iterator[Anomaly]:
    for group in repeated.groups:
        handed = sorted((each.handed[p.id][0], p.time_us, p.id) for p in group if p.id in each.handed)
        for (first, made_us, one), (second, also_us, other) in itertools.pairwise(handed):
            is_sure = second.time_us - min(made_us, also_us) < each.message_id_us
            if is_sure and not (second.is_again and _may_be_unknown(each, history, first, second)):
                what = f"which repeats {history.naming.message(one)}, handed out at {seconds(first.time_us)}"
                yield _anomaly(each, history, other, second, what)


def _may_be_unknown(each: DurableRecord, history: History, first: HandedOut, second: HandedOut) -> bool:
    """Whether the broker that handed out the second message may not have known of the first: the one before it died
    before it told, and the consumer that had the message was gone."""
    is_gone = each.over.get(first.life, NEVER) <= second.time_us
    return is_gone and not history.calm_brokers.covers(first.time_us, second.time_us)


def _was_repeat(each: DurableRecord, p: PublicationRecord, owed: bytearray, repeated: RepeatedMessages) -> bool:
    """Whether a message that was not handed out may have been dropped as a repeat."""
    for other in repeated.others(p):
        times = each.handed.get(other.id)
        came_us = times[0].time_us if times else other.time_us
        was_there = bool(times) or other.id in each.dead or not owed[other.number]
        was_there = was_there or (each.drops and other.number < p.number)
        if was_there and p.time_us - came_us <= each.message_id_us + SLACK_US:
            return True
    return False


def _was_replaced(each: DurableRecord, p: PublicationRecord, row: int, repeated: RepeatedMessages) -> bool:
    """Whether another message with the same id was handed out, or given up, in place of one that came back."""
    later = (times[-1].row for other in repeated.others(p) if (times := each.handed.get(other.id)))
    given_up = (letters[0].row for other in repeated.others(p) if (letters := each.dead.get(other.id)))
    return any(number > row for number in (*later, *given_up))


def _lost(each: DurableRecord, history: History, owed: bytearray, repeated: RepeatedMessages) -> Iterator[Anomaly]:
    for p in history.publications:
        if each.confirmed is None or each.predicate is None or p.row < each.confirmed or not owed[p.number]:
            continue
        if _was_repeat(each, p, owed, repeated) and p.id not in each.handed:
            continue
        is_settled = p.id in each.handed or p.id in each.dead or is_followed(each, history, p.id, owed)
        if not is_settled and matches(each.predicate, p):
            name = history.name(p.number)
            text = f"{each.name}: nobody was handed {name}, published on {p.topic} at {seconds(p.time_us)}"
            yield Anomaly(RULE, p.time_us, each.name, (name,), text)


def _lost_with_a_consumer(
    each: DurableRecord, history: History, owed: bytearray, repeated: RepeatedMessages
) -> Iterator[Anomaly]:
    latest = history.ended_us - LONG_US
    if each.predicate is None or min(each.present.values()) > latest:
        return
    for id, times in each.handed.items():
        p = history.published(id)
        if p is None or id in each.done or id in each.dead or p.row < (each.confirmed or 0) or not owed[p.number]:
            continue
        if is_followed(each, history, id, owed):
            continue
        if _was_replaced(each, p, times[-1].row, repeated):
            continue
        if not any(_has(each, id, handed, latest) for handed in times):
            is_gone = each.over.get(times[-1].life, NEVER) <= latest
            gone = f"{times[-1].life[0]}, which {'is gone' if is_gone else 'gave it back'} and has not acknowledged it"
            name = history.name(p.number)
            yield Anomaly(RULE, p.time_us, each.name, (name,), f"{each.name}: nobody was handed {name} after {gone}")


def _has(each: DurableRecord, id: MessageId, handed: HandedOut, latest: int) -> bool:
    """Whether a consumer still has a message at the end."""
    if each.over.get(handed.life, NEVER) <= latest or each.rejected.get((handed.life, id), -1) > handed.row:
        return False
    return not each.ack_wait_us or handed.time_us + each.ack_wait_us > latest


def check_retries(each: DurableRecord, history: History) -> Iterator[Anomaly]:
    """What comes back is counted, and given up as the policy says, with one dead letter."""
    for id, times in each.handed.items():
        if not each.is_mqtt and (each.may_come_back or len(times) > 1):
            yield from _counted(each, history, id, times)
    for id, letters in each.dead.items():
        yield from _given_up_rightly(each, history, id, letters)


def _counted(each: DurableRecord, history: History, id: MessageId, times: list[HandedOut]) -> Iterator[Anomaly]:
    """A delivery is counted for certain unless something happened to a broker or link before others were told. Those to
    different consumers may arrive in another order than they were sent: within `QUIET_US` in calm times, and later at a
    consumer that was frozen."""
    counted = [
        history.calm_brokers.covers(handed.time_us, min(later.time_us + QUIET_US, times[-1].time_us))
        for handed, later in itertools.pairwise(times)
    ]
    for n, handed in enumerate(times):
        is_prompt = history.calm.covers(handed.time_us, handed.time_us)
        sent_us = max(each.begun.get(handed.life, 0), handed.time_us - QUIET_US if is_prompt else 0)
        known = sum([
            is_counted and (g.life == handed.life or sent_us > g.time_us)
            for g, is_counted in zip(times[:n], counted, strict=False)
        ])  # fmt: skip
        if handed.deliveries < known + 1:
            yield _anomaly(each, history, id, handed, f"as delivery {handed.deliveries}, after {known}")
        most = max(handed.deliveries, known + 1)
        if 0 < each.max_deliver < most:
            yield _anomaly(each, history, id, handed, f"for the {most}th time; at most {each.max_deliver}")


def _given_up_rightly(
    each: DurableRecord, history: History, id: MessageId, letters: list[DeadLetterRow]
) -> Iterator[Anomaly]:
    first, p = letters[0], history.published(id)
    name = history.naming.message(id)

    def wrong(letter: DeadLetterRow, what: str) -> Anomaly:
        text = f"{each.name}: {letter.node} published a dead letter of {name} at {seconds(letter.time_us)}, {what}"
        return Anomaly(RULE, letter.time_us, letter.node, (name,), text)

    if p is None or p.row > first.row or (each.predicate is not None and not matches(each.predicate, p)):
        yield wrong(first, "which was not for the subscription")
    for letter in letters:
        if letter.letter != first.letter:
            yield wrong(letter, "which is the second one")
        is_spent = 0 < each.max_deliver <= letter.deliveries
        if not is_spent and each.terminated.get(id, NEVER) > letter.row:
            yield wrong(letter, f"after {letter.deliveries} deliveries, and no consumer had given it up")
    for handed in each.handed.get(id, ()):
        is_later = (
            handed.time_us > first.time_us + QUIET_US
        )  # others may have been on the way, to a frozen one for long
        is_later = is_later and not any(first.time_us < at_us for at_us in history.thaws.get(handed.life[0], ()))
        if is_later and history.calm_brokers.covers(first.time_us, handed.time_us):
            yield _anomaly(each, history, id, handed, "after its dead letter was published")
    for time_us, life in each.done.get(id, ()):
        known = history.calm.quiet_after(time_us, each.over.get(life, NEVER))
        if known < first.time_us:
            yield wrong(first, f"which {life[0]} had acknowledged at {seconds(time_us)}")


def _anomaly(each: DurableRecord, history: History, id: MessageId, handed: HandedOut, what: str) -> Anomaly:
    node, name = handed.life[0], history.naming.message(id)
    text = f"{each.name}: {node} was handed {name} at {seconds(handed.time_us)}, {what}"
    return Anomaly(RULE, handed.time_us, node, (name,), text)
