"""Long runs without a fault in them, row by row, with nothing kept: to see what a live judge keeps."""

import random
from collections.abc import Iterator

from resprout.trace.schema import Row

GUARANTEES = ("eventual", "fifo", "causal", "total")
MILLISECOND = 1_000


def long_clean_run(publications: int, clients: int = 4, seed: int = 0, restarts: bool = True) -> Iterator[Row]:
    """Everybody delivers everything in the order in which it was published, some milliseconds later. Keys are new all
    the time, contents are filtered for one client, and one client dies and comes back now and then."""
    rng = random.Random(seed)
    now = 0
    positions = [0] * clients
    lives = [1] * clients
    numbers: list[dict[str, int]] = [{} for _ in range(clients)]
    late: list[list[Row]] = [[] for _ in range(clients)]
    """What each client has still to deliver."""
    for c in range(clients):
        yield from _subscribes(now, c, clients)
    for n in range(publications):
        now += rng.randrange(1, 5) * MILLISECOND
        if restarts and n % 500 == 499:
            yield Row(time_us=now, node="c0", kind="crash")
            yield Row(time_us=now + 1, node="c0", kind="recover")
            positions[0], numbers[0], late[0] = 0, {}, []
            lives[0] += 1
            now += 2
            yield from _subscribes(now, 0, clients)
            now += 2
        publisher = rng.randrange(clients)
        made = _publication(rng, now, publisher, lives[publisher], numbers[publisher], n)
        yield made
        for c in range(clients):
            if c != clients - 1 or int((made.attributes or {})["amount"]) > 5:
                late[c].append(made)
        for c in rng.sample(range(clients), clients):
            for _ in range(rng.randrange(len(late[c]) + 1)):
                now += 1
                yield _delivery(now, c, positions[c], late[c].pop(0))
                positions[c] += 1
    for c in range(clients):
        for sent in late[c]:
            now += 1
            yield _delivery(now, c, positions[c], sent)
            positions[c] += 1
    yield Row(time_us=now, node="world", kind="quiescent")


def _subscribes(now: int, client: int, clients: int) -> list[Row]:
    where = "amount > 5" if client == clients - 1 else None
    return [
        Row(time_us=now, node=f"c{client}", kind=kind, filter="a/#", where=where)
        for kind in ("subscribe", "subscribed")
    ]


def _publication(rng: random.Random, now: int, client: int, life: int, numbers: dict[str, int], n: int) -> Row:
    guarantee = rng.choice(GUARANTEES)
    stream = "eventual" if guarantee == "eventual" else "ordered"
    numbers[stream] = numbers.get(stream, 0) + 1
    return Row(
        time_us=now, node=f"c{client}", kind="publish", publisher=f"c{client}", incarnation=life, stream=stream,
        seq=numbers[stream], topic=f"a/{rng.randrange(3)}", guarantee=guarantee, keys=(f"k{n // 20}", "always"),
        attributes={"amount": str(rng.randrange(11))}, payload_bytes=8,
    )  # fmt: skip


def _delivery(now: int, client: int, position: int, sent: Row) -> Row:
    return Row(
        time_us=now, node=f"c{client}", kind="deliver", publisher=sent.publisher, incarnation=sent.incarnation,
        stream=sent.stream, seq=sent.seq, topic=sent.topic, guarantee=sent.guarantee, keys=sent.keys, position=position,
    )  # fmt: skip
