"""What swarms draw from: classes of trials, each with a name; alike classes share a file.

`faults` is the first and the widest: everything that machines do. The others are about what people do and what networks
are like. A class draws from its own generators, so a new one leaves the seeds of the others as they are.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from resprout.scenario.draw import draw_scenario, with_keepers
from resprout.scenario.model import random_for
from resprout.sim.classes.clients import doubled_clients, doubled_names, producers, unread
from resprout.sim.classes.durable import consumers, spilling
from resprout.sim.classes.links import slow_links, thin_links
from resprout.sim.classes.logs import logs
from resprout.sim.classes.machines import blackout, disks, hung, in_turn, moved_clocks, restarts, rolling
from resprout.sim.classes.mqtt import mqtt
from resprout.sim.classes.queues import queues
from resprout.sim.classes.tree import cut_repairs, moves, newcomers, scoped_totals, totals
from resprout.sim.classes.values import kv, retained
from resprout.sim.mishaps import with_mishaps
from resprout.sim.run import Trial

FAULTS: Final = "faults"
ANY: Final = "any"
"""Not a class: each seed draws one, `faults` as often as all others together."""


def _faults(seed: int) -> Trial:
    return with_mishaps(with_keepers(draw_scenario(seed)))


CLASSES: Final[Mapping[str, Callable[[int], Trial]]] = MappingProxyType(
    {
        FAULTS: _faults,
        "blackout": blackout,
        "consumers": consumers,
        "cut-repairs": cut_repairs,
        "disks": disks,
        "doubled-clients": doubled_clients,
        "doubled-names": doubled_names,
        "hung": hung,
        "in-turn": in_turn,
        "kv": kv,
        "logs": logs,
        "moved-clocks": moved_clocks,
        "moves": moves,
        "mqtt": mqtt,
        "newcomers": newcomers,
        "producers": producers,
        "queues": queues,
        "restarts": restarts,
        "retained": retained,
        "rolling": rolling,
        "scoped-totals": scoped_totals,
        "slow-links": slow_links,
        "spilling": spilling,
        "thin-links": thin_links,
        "totals": totals,
        "unread": unread,
    }
)
"""Name -> the trial of a seed. Equal seeds give equal trials as long as the stack is the same: faults are put where a
rehearsal shows that the stack is at work."""


def class_of(seed: int, wanted: str = ANY) -> str:
    """The class that a seed is tried in."""
    others = [name for name in CLASSES if name != FAULTS]
    if wanted != ANY:
        return wanted
    rng = random_for(seed, "class")
    return FAULTS if not others or rng.random() < 0.5 else rng.choice(others)
