"""What the messages of the stacks are for. A trace counts them by type; people ask for the purpose."""

from typing import Final

PUBLICATIONS: Final = "publications"
"""Bring a publication from broker to broker, or what is needed to order it."""
REPORTS: Final = "reports"
"""Say between brokers how far publications have come."""
SUBSCRIPTIONS: Final = "subscriptions"
"""Spread between brokers who wants what."""
MEMBERSHIP: Final = "membership"
"""Who belongs to the tree and lives: signs of life, joins, moves, elections."""
REPAIR: Final = "repair"
CLIENTS: Final = "clients"
"""All that clients and their brokers say to each other, and brokers about clients."""
OTHER: Final = "other"

_TYPES: Final = {
    PUBLICATIONS: "Forward Submit Lock Closed Metadata TotalRequest TotalLock TotalAck TotalProcessed",
    REPORTS: "Levels TotalLevels Passed Progress",
    SUBSCRIPTIONS: ("Interested InterestConfirmed Uninterested Advertised Unadvertised"),
    MEMBERSHIP: (
        "Ping Pong Probe Probed Suspect Alive Orphan Gone Fenced PreVote Vote Enrol Enrolled Decided Tell Told"
        " JoinRequest JoinElsewhere JoinWithdrawn Welcome WelcomeLock LastTotals Leaving MoveAway"
        " NameTaken NetworkName Seek Sought TreeViewUpdate TreeViewSeen"
    ),
    REPAIR: (
        "AttachRequest NotMember Attach Grant Item Stub SeenMarks Asks ServedAsks Surroundings ParcelEnd LockReport"
        " GrantedLock Listeners ClientLives ParentRequest ParentResponse ParentBuffer LostMessage LostMessageRequest"
        " Placed Attached"
    ),
    CLIENTS: (
        "Attend Publish Subscribe Unsubscribe Advertise Unadvertise Taken ForgetBrokers Serving GoTo Refuges"
        " Subscribed SubscribeRefused Unsubscribed Delivery Turned PublishRefused BrokersForgotten PublicationWaits"
        " SafeCopies ListenersChanged ListenersHeard ClientBegan"
    ),
}
_FAMILY: Final = {name: family for family, names in _TYPES.items() for name in names.split()}


def family_of(message: str) -> str:
    """By the name of its type; a stack that nobody told of here has `OTHER`s."""
    return _FAMILY.get(message, OTHER)
