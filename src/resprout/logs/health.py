"""Health of a replica of a log, for `resprout status`: since when it lacks a leader, or entries of the leader."""


class ReplicaHealth:
    def __init__(self) -> None:
        self.leaderless_since_us: int | None = None
        """Time since which this replica has known no leader with a majority; None while it knows one."""
        self.behind_since_us: int | None = None
        """Time since which it has lacked entries of the leader; None if it lacks none that it heard of before the last
        tick."""
        self._wanted_slot = 0
        """The last slot of the leader at the previous tick."""

    def look(self, now_us: int, has_leader: bool, chosen: int, told: int, is_whole: bool) -> None:
        """Update the times. A replica is behind if it lacks what it already knew of at the last tick. `chosen`: the
        last slot that it knows to be decided; `told`: the same according to the leader. `is_whole`: whether it is a
        member and has all entries that it knows of."""
        is_late = chosen < self._wanted_slot or not is_whole
        self._wanted_slot = max(told, chosen)
        since_us = now_us if self.leaderless_since_us is None else self.leaderless_since_us
        self.leaderless_since_us = None if has_leader else since_us
        since_us = now_us if self.behind_since_us is None else self.behind_since_us
        self.behind_since_us = since_us if is_late else None
