"""Who is served: the rows of the code are those of docs/protocol.md, and give the right answer in every situation."""

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from resprout.stacks.resprout.lost_brokers import ROWS, Answer, Situation, find_row

DOCUMENT = Path(__file__).parents[2] / "docs/protocol.md"
DOCUMENTED = re.compile(r"^\| (?P<name>[a-z ]+) \| (?P<condition>[^|]+) \| `(?P<answer>[A-Z_]+)`: [^|]+ \|$")


def situations() -> Iterator[Situation]:
    """Every combination of conditions, those included that never hold together."""
    for values in product((False, True), repeat=len(Situation._fields)):
        yield Situation(*values)


def reference(s: Situation) -> Answer:
    """The answer by cases, as prose would have it: first this broker, then the client, then what is known of others."""
    if s.is_leaving and not (s.lost_broker and s.has_ghost):
        return Answer.WAIT  # only clients that no other broker could serve are still served
    is_new = not s.lost_broker and not s.has_subscriptions
    if not (s.has_place and (s.is_calm or is_new)):
        return Answer.WAIT
    if s.lost_broker and not s.is_given_up:
        return _reference_of_lost(s)
    return Answer.SERVE


def _reference_of_lost(s: Situation) -> Answer:
    if s.has_ghost:
        return Answer.RESUME if s.is_shown else Answer.WAIT_FOR_LOG
    if s.is_home:
        return Answer.SERVE
    if s.keeper_failed_lately or (s.knows_successor and s.is_successor):
        return Answer.WAIT
    is_vain = not s.keeps_ghost
    if (s.insists and is_vain) or (not s.knows_successor and not s.has_subscriptions):
        return Answer.SERVE
    return Answer.SEND_ON if s.knows_successor else Answer.SEND_BACK


def documented_rows() -> list[tuple[str, str]]:
    section = DOCUMENT.read_text().split("\n## Clients that lose their broker\n")[1].split("\n## ")[0]
    found = [DOCUMENTED.match(line) for line in section.splitlines()]
    return [(match["name"], match["answer"]) for match in found if match is not None]


def test_every_situation_has_the_answer_of_the_reference() -> None:
    assert [s for s in situations() if find_row(s).answer is not reference(s)] == []


def test_the_document_has_the_rows_of_the_code_in_the_same_order() -> None:
    assert documented_rows() == [(row.name, row.answer.name) for row in ROWS]


def test_each_row_decides_some_situation() -> None:
    assert list(dict.fromkeys(row.name for row in ROWS)) == [row.name for row in ROWS]
    assert {find_row(s).name for s in situations()} == {row.name for row in ROWS}


def test_each_answer_depends_on_each_row() -> None:
    """No row repeats what a later one would answer in any case: without it some situation has another answer."""
    for missing in ROWS[:-1]:
        others = [row for row in ROWS if row is not missing]
        changed = (next(row for row in others if row.holds(s)).answer is not find_row(s).answer for s in situations())
        assert any(changed), missing.name
