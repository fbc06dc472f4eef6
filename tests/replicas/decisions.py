"""Judges what replicas said was decided, from their words alone: shares no code with what it judges."""

from collections.abc import Sequence

Word = tuple[str, object]
"""("command", bytes), ("members", names) or ("nothing", None)."""


class Decisions:
    def __init__(self) -> None:
        self.slots: dict[int, Word] = {}
        self.proposed: set[bytes] = set()
        self.configurations: set[tuple[str, ...]] = set()
        self._reached: dict[tuple[str, int], int] = {}
        """Replica and run -> the last slot that it told."""

    def chosen(self, replica: str, run: int, slot: int, word: Word) -> None:
        at = self._reached.get((replica, run), 0)
        assert slot == at + 1, f"{replica} told slot {slot} after {at}"
        self._reached[replica, run] = slot
        known = self.slots.setdefault(slot, word)
        assert known == word, f"{replica} says that {word} stands in slot {slot}; {known} was told before"
        kind, value = word
        if kind == "command":
            assert value in self.proposed, f"nobody proposed {value!r}"
        elif kind == "members":
            assert value in self.configurations, f"nobody proposed {value!r}"

    def restored(self, replica: str, run: int, slot: int, state: Sequence[bytes]) -> None:
        at = self._reached.get((replica, run), 0)
        assert slot > at, f"{replica} went back from {at} to a snapshot of {slot}"
        self._reached[replica, run] = slot
        assert list(state) == self.commands(slot), f"the snapshot of {slot} at {replica} is not what was decided"

    def commands(self, upto: int) -> list[bytes]:
        words = [self.slots[slot] for slot in range(1, upto + 1)]
        return [value for kind, value in words if kind == "command" and isinstance(value, bytes)]
