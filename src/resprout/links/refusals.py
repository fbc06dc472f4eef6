"""Says whom a node has turned away, and because of which limit: once, and then how many more, so that whoever knocks a
thousand times a second does not fill the log as well."""

from typing import Final

from resprout.core.contract import Effect, Note

REASONS_MAX: Final = 64
OTHER_REASONS: Final = "something else"
"""Reasons are a few texts. Should there be more of them after all, the rest is counted together."""

PERIOD_US: Final = 10_000_000
"""For each reason there is at most one line in so long."""
TURNED_AWAY: Final = "was turned away"


class Refusals:
    def __init__(self) -> None:
        self._told: dict[str, tuple[int, int]] = {}
        """By reason, of which there are a few: when it was told last, and how often it has come up since."""

        self.counts: dict[str, int] = {}
        """How often each reason came up, told or not."""

    def count(self, why: str) -> None:
        """One that is told to nobody: whoever does it may do it a thousand times a second."""
        if why not in self.counts and len(self.counts) >= REASONS_MAX:
            why = OTHER_REASONS
        self.counts[why] = self.counts.get(why, 0) + 1

    def tell(self, who: str, why: str, now_us: int, out: list[Effect], what: str = TURNED_AWAY) -> None:
        """`why` names the limit, or the fault; `who` is different each time; `what` was done about it."""
        self.count(why)
        told = self._told.get(why)
        if told is not None and now_us - told[0] < PERIOD_US:
            self._told[why] = (told[0], told[1] + 1)
            return
        more = f"; {told[1]} more since that was said last" if told is not None and told[1] else ""
        self._told[why] = (now_us, 0)
        out.append(Note("note", {"detail": f"{who} {what}: {why}{more}"}))
