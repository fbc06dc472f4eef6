"""Durable subscriptions belong to identities: who may consume one, and who may end it.

Whoever creates a subscription owns it. What a client may do with one is found out where it speaks (`guard`), and
decided where the owner is known: by the stack, which every broker does in the same way.

A subscription without an owner was created where nobody proved anything, or by a release that knew no owners. The first
identity that consumes it becomes its owner, unless the rules let everybody consume it.
"""

from collections.abc import Callable

import msgspec

from resprout.edge.broker.session import ClientSession

NOT_ITS_OWN = "the durable subscription belongs to another identity"
"""Why somebody was refused, for the log: one of a few texts."""


class DurableGrant(msgspec.Struct, frozen=True):
    """What a client may do with one durable subscription, whoever owns it."""

    lists: bool
    """Its rules list the name: it may consume the subscription of others."""
    creates: bool
    """It may create the subscription: the rules do not keep the name for others."""
    adopts: bool
    """It becomes the owner of one that has none."""
    manages: bool
    """It may end the subscription of others."""
    sees_terms: bool
    """It may be told what a subscription of others is."""
    refused: Callable[[str], None]
    """Is told, in one of a few texts, why the client was refused."""


def fault_of_consumer(session: ClientSession, name: str, owner: str | None) -> str:
    """Why a client may not consume the subscription; empty when it may. `owner`: empty for one without, None when there
    is no such subscription yet."""
    grant: DurableGrant | None = session.grant
    if grant is None or grant.lists or (owner and owner == session.identity) or (not owner and grant.creates):
        return ""
    if owner is None:
        grant.refused("the rules keep the name of the durable subscription for others")
        return f"{session.name} may not create {name!r}: the rules keep that name for other identities (`consume`)"
    grant.refused(NOT_ITS_OWN)
    return f"{session.name} may not consume {name!r}: it belongs to another identity, and no `consume` rule lists it"


def fault_of_end(session: ClientSession, name: str, owner: str) -> str:
    """Why a client may not end the subscription; empty when it may."""
    grant: DurableGrant | None = session.grant
    if grant is None or grant.manages or (owner and owner == session.identity):
        return ""
    if not owner and (grant.lists or grant.creates):
        return ""
    grant.refused(NOT_ITS_OWN)
    return f"{session.name} may not end {name!r}: it belongs to another identity, and no `manage` rule lists it"


def sees_terms(session: ClientSession, owner: str) -> bool:
    """Whether a client that asks for something else under the same name may be told what is there."""
    grant: DurableGrant | None = session.grant
    return grant is None or grant.sees_terms or (bool(owner) and owner == session.identity)


def adopter(session: ClientSession) -> str:
    """Who owns a subscription without an owner once this client consumes it; empty: still nobody."""
    return session.identity if session.grant is not None and session.grant.adopts else ""
