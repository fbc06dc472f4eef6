"""The next change of the members of a log."""

from collections.abc import Sequence
from typing import Final

from resprout.logs.messages import broker_of

LAG_MAX: Final = 64
"""Most entries that a replica may lack when it becomes a member. The first decisions bring the rest."""


def next_members(members: Sequence[str], declared: Sequence[str], ready: dict[str, str]) -> list[str]:
    """Return the members after the next change, of one member: a declared broker whose replica is ready becomes a
    member and replaces its earlier identity. When all declared brokers are members, the others are removed. `ready`:
    identities of replicas that are ready to become members, by broker; the one that is chosen is taken out."""
    at = {broker_of(member): member for member in members}
    for broker in declared:
        identity = ready.pop(broker, at.get(broker))
        if identity is not None and identity not in members:
            return [*[member for member in members if broker_of(member) != broker], identity]
    if all(broker in at for broker in declared):
        return [member for member in members if broker_of(member) in declared]
    return list(members)
