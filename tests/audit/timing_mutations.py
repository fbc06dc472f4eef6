"""Ways to give messages times that their deliveries do not keep; see `mutations`. The judge of a run with processes
allows for clocks, so times are wrong by more."""

import random

from resprout.audit.timing import CLOCKS_US
from resprout.core.timing import DUE, EXPIRES, PUBLISHED
from tests.audit.spoiling import Rows, change, ident, mutation, pick, places, publications

WALL_US = 1_800_000_000_000_000


def _with_times(rows: Rows, at: int, **times: int) -> Rows:
    row = rows[at]
    told = {name: str(WALL_US + time_us - row.time_us) for name, time_us in times.items()}
    made = change(row, attributes={**(row.attributes or {}), PUBLISHED: str(WALL_US), **told})
    return [*rows[:at], made, *rows[at + 1 :]]


@mutation("early")
def deliver_before_it_is_due(rows: Rows, rng: random.Random) -> Rows | None:
    i = pick(rng, [i for i in places(rows, "deliver") if rows[i].guarantee == "eventual"])
    if i is None or (made := publications(rows).get(ident(rows[i]))) is None:
        return None
    return _with_times(rows, made, **{DUE: rows[i].time_us + CLOCKS_US + 1})


@mutation("expired")
def deliver_what_has_expired(rows: Rows, rng: random.Random) -> Rows | None:
    i = pick(rng, places(rows, "deliver"))
    if i is None or (made := publications(rows).get(ident(rows[i]))) is None:
        return None
    return _with_times(rows, made, **{EXPIRES: rows[i].time_us - CLOCKS_US})
