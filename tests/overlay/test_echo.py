"""The echo algorithm: a question ends once, when everybody who was asked has answered or is dead."""

import pytest

from resprout.core.errors import PeerError
from resprout.overlay.waves import Echo


class Asker:
    def __init__(self) -> None:
        self.echo: Echo[int, str] = Echo()
        self.sent: list[str] = []
        self.joined: list[str | None] = []
        self.done = 0

    def ask(self, key: int, *names: str) -> None:
        self.echo.ask(key, names, self.sent.append, self._done, self._join)

    def _done(self) -> None:
        self.done += 1

    def _join(self, answer: str | None) -> None:
        if answer == "false":
            raise PeerError("that is no answer")
        self.joined.append(answer)


def test_a_question_ends_when_all_have_answered() -> None:
    asker = Asker()
    asker.ask(1, "a", "b")
    assert asker.sent == ["a", "b"] and len(asker.echo) == 1
    asker.echo.answered(1, "a", "yes")
    assert not asker.done
    asker.echo.answered(1, "b", "no")
    assert (asker.joined, asker.done, len(asker.echo)) == (["yes", "no"], 1, 0)


def test_a_question_to_nobody_ends_at_once_and_is_not_counted() -> None:
    asker = Asker()
    asker.ask(1)
    assert (asker.sent, asker.joined, asker.done, asker.echo.asked) == ([], [], 1, 0)


def test_answers_that_were_not_asked_for_change_nothing() -> None:
    asker = Asker()
    asker.ask(1, "a", "b")
    for key, name in ((1, "z"), (7, "a"), (1, "a"), (1, "a")):
        asker.echo.answered(key, name, "yes")
    assert (asker.joined, asker.done) == (["yes"], 0)


def test_nobody_waits_for_the_dead_and_what_they_knew_is_missing() -> None:
    asker = Asker()
    asker.ask(1, "a", "b")
    asker.ask(2, "b")
    asker.echo.unwait("b")
    assert (asker.joined, asker.done) == ([None, None], 1), "the second question went to nobody else"
    asker.echo.answered(1, "a", "yes")
    assert (asker.joined, asker.done) == ([None, None, "yes"], 2)


def test_a_false_answer_leaves_the_question_open() -> None:
    asker = Asker()
    asker.ask(1, "a")
    with pytest.raises(PeerError, match="no answer"):
        asker.echo.answered(1, "a", "false")
    asker.echo.unwait("a")
    assert (asker.joined, asker.done) == ([None], 1)


def test_a_question_may_be_asked_again_while_an_earlier_one_ends() -> None:
    echo: Echo[int, str] = Echo()
    ended: list[int] = []

    def end(key: int) -> None:
        ended.append(key)
        if key < 3:
            echo.ask(key + 1, ["a"], lambda name: None, lambda: end(key + 1))

    echo.ask(1, ["a"], lambda name: None, lambda: end(1))
    for key in (1, 2, 3):
        echo.answered(key, "a", "yes")
    assert ended == [1, 2, 3] and len(echo) == 0
