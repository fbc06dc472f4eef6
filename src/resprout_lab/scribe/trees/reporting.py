"""How far all of a tree has come, told from below to the root: that one keeps what somebody may lack, and holds back
whoever publishes more than the tree carries.

A broker that has taken enough since its last report makes another one, and whoever hears one passes on what has become
of all below it. So little is said where little is published; and the root is behind the truth by no more than what a
report is about, however deep the tree is.
"""

from typing import Final

from resprout_lab.scribe.trees.lines import TreeLines
from resprout_lab.scribe.trees.messages import TreeHas
from resprout_lab.scribe.trees.tree import TreePlace


class Reporting:
    def __init__(self, lines: TreeLines, report_bytes: int) -> None:
        self._lines = lines
        self._report_bytes: Final = report_bytes

    def joined(self, place: TreePlace, position: int) -> None:
        """The parent takes this broker to have so much, until it hears otherwise."""
        place.reported = position
        self.look(place)

    def took(self, place: TreePlace) -> None:
        """Publications, at this broker."""
        if place.untold_bytes >= self._report_bytes or place.is_root:
            self.look(place)

    def heard(self, place: TreePlace, name: str, position: int) -> None:
        """From a child."""
        if name in place.floors:
            place.floors[name] = position
            self.look(place)

    def look(self, place: TreePlace) -> None:
        """Whether there is something to report."""
        floor = place.floor
        if floor is None or floor == place.reported:
            return
        if place.is_root:
            has_risen, place.reported = floor > place.reported, floor
            if has_risen:
                self._lines.spread_upto(place.topic)
        elif place.parent is not None:
            place.reported, place.untold_bytes = floor, 0
            self._lines.say(place.parent, TreeHas(place.topic, floor))
