"""The echo algorithm (propagation of information with feedback) at one broker of a tree.

A broker asks its neighbours, each of them asks those behind it, and answers when all of them have answered. So one
answer speaks for everybody behind a link, and the broker that began the question hears when the whole tree has
answered. This class keeps what one broker waits for. It joins the answers of each question, stops waiting for
neighbours that are dead, and calls `done` when no answer is outstanding.

Four protocols use it: `waves` (record this), `census` (who has this name), the book of durable subscriptions (know this
state), and the search for publications that are not read (`stacks.resprout.unread`). Each sends its own messages and
bounds how many questions others may have under way here.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")


def _ignore(answer: Any) -> None:
    """Join nothing: that everybody has answered says it all."""


class _Question(Generic[Answer]):
    __slots__ = ("done", "join", "waiting")

    def __init__(
        self, waiting: dict[str, None], join: Callable[[Answer | None], None], done: Callable[[], None]
    ) -> None:
        self.waiting = waiting
        """Neighbours that have not answered."""
        self.join = join
        self.done = done


class Echo(Generic[Key, Answer]):
    def __init__(self) -> None:
        self._running: dict[Key, _Question[Answer]] = {}
        self.asked = 0
        """Questions so far that some neighbour was asked."""

    def __len__(self) -> int:
        """Return how many questions wait for answers."""
        return len(self._running)

    def ask(
        self,
        key: Key,
        names: Iterable[str],
        send: Callable[[str], object],
        done: Callable[[], None],
        join: Callable[[Answer | None], None] = _ignore,
    ) -> None:
        """Send the question to each of these neighbours. `join` is called with each answer, and with None for a
        neighbour that dies instead; then `done`, at once if there is nobody to ask. A question with the same key is
        replaced."""
        waiting = dict.fromkeys(names)
        if not waiting:
            self._running.pop(key, None)
            done()
            return
        self.asked += 1
        self._running[key] = _Question(waiting, join, done)
        for name in list(waiting):
            send(name)

    def answered(self, key: Key, name: str, answer: Answer) -> None:
        """Take the answer of a neighbour; without effect unless it is waited for. What `join` raises leaves the
        question as it was."""
        question = self._running.get(key)
        if question is not None and name in question.waiting:
            question.join(answer)
            self._settle(key, question, name)

    def unwait(self, name: str) -> None:
        """Stop waiting for a neighbour that is dead."""
        for key, question in list(self._running.items()):
            if name in question.waiting:
                question.join(None)
                self._settle(key, question, name)

    def _settle(self, key: Key, question: _Question[Answer], name: str) -> None:
        del question.waiting[name]
        if not question.waiting and self._running.get(key) is question:
            del self._running[key]
            question.done()
