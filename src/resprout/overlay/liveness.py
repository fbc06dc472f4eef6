"""How far a life is from being heard, on one scale, and who may move it there.

Whoever stands higher is further away. A word of the life itself brings it back from `UNRESPONSIVE` and `SILENT`; from
`ENDED` on there is no way back for a life, only for its name, under a higher incarnation.
"""

from enum import IntEnum


class Liveness(IntEnum):
    HEARD = 0
    """Its connection stands and its stack speaks: whatever it says keeps it here."""
    UNRESPONSIVE = 1
    """Its connection stands, and its stack has said nothing for a lease: the failure detector finds that by itself."""
    SILENT = 2
    """Its connection is broken or cannot be made: the links say so, and nobody else."""
    ENDED = 3
    """Certainly over: its own host says that the process is gone, it said farewell, or a later life has spoken."""
    FORGOTTEN = 4
    """It never returns: the operator says so, and majorities do without it."""
    DECLARED_DEAD = 5
    """It has a tombstone: only its authority may put it there, and everybody who hears of it follows."""
    REPLACED = 6
    """Its repair is finished here: the coordinator puts it there, and every member when it has its Grant."""
