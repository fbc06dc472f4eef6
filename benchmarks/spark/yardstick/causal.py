"""Causal order of suspects, settled as the judge does: see `resprout.audit.causal`."""

from typing import Any, Final

import duckdb  # type: ignore[import-not-found]  # of the benchmarks' own environment

_PUBLICATIONS: Final = """
    select number, life, row, node, ordered from publications where run_no = $run"""
_HEARD: Final = """
    select life, row, number from sound where run_no = $run"""
_GIVEN: Final = """
    select number, position, row, ordered, guarantee in ('causal', 'total') from sound where life = $life
    order by row"""
_MISSING: Final = "select number, until from missing where life = $life and ordered"


def violations(database: duckdb.DuckDBPyConnection, run: int, lives: list[int]) -> list[tuple[int, int, int]]:
    """(run, life, publication) of each violation by one of these lives of a run."""
    links = _links(database, run)
    return [(run, life, number) for life in lives for number in _of_life(database, links, life)]


def _links(database: duckdb.DuckDBPyConnection, run: int) -> dict[int, list[int]]:
    """For each publication, in order, what it depends on directly: the latest of each client's life."""
    events: list[Any] = [(row, 0, life, number, "", False) for life, row, number in _ask(database, _HEARD, run=run)]
    events += [
        (row, 1, life, number, node, ordered)
        for number, life, row, node, ordered in _ask(database, _PUBLICATIONS, run=run)
    ]
    life_of = {event[3]: event[2] for event in events if event[1]}
    links: dict[int, list[int]] = {}
    since: dict[int, dict[int, int]] = {}
    last: dict[int, int] = {}
    last_ordered: dict[str, int] = {}
    for _, is_publication, life, number, node, ordered in sorted(events):
        heard = since.setdefault(life, {})
        if not is_publication:
            heard[life_of[number]] = max(number, heard.get(life_of[number], -1))
            continue
        previous = last.get(life, last_ordered.get(node))
        links[number] = [*heard.values(), *([] if previous is None else [previous])]
        heard.clear()
        last[life] = number
        if ordered:
            last_ordered[node] = number
    return links


def _of_life(database: duckdb.DuckDBPyConnection, links: dict[int, list[int]], life: int) -> list[int]:
    given = {number: rest for number, *rest in _ask(database, _GIVEN, life=life)}
    places = {number: position for number, (position, _, ordered, _) in given.items() if ordered}
    latest = _latest(links, places)
    lost = _latest(links, dict(_ask(database, _MISSING, life=life)))
    return [
        number
        for number, (position, row, _, judged) in given.items()
        if judged and (latest.get(number, -1) > position or lost.get(number, -1) > row)
    ]


def _latest(links: dict[int, list[int]], own: dict[int, int]) -> dict[int, int]:
    """The highest `own` of anything that a publication depends on."""
    latest: dict[int, int] = {}
    reach = dict(own)
    for number, dependencies in links.items():
        bound = max((reach.get(dependency, -1) for dependency in dependencies), default=-1)
        latest[number] = bound
        if bound > reach.get(number, -1):
            reach[number] = bound
    return latest


def _ask(database: duckdb.DuckDBPyConnection, query: str, **values: int) -> list[Any]:
    return list(database.execute(query, values).fetchall())
