"""What messages are for. A trace counts them by type; people ask for the purpose, and each stack says it of its own."""

import enum


class Family(enum.StrEnum):
    PUBLICATIONS = "publications"
    """Bring a publication from broker to broker, or what is needed to order it."""
    REPORTS = "reports"
    """Say between brokers how far publications have come."""
    SUBSCRIPTIONS = "subscriptions"
    """Spread between brokers who wants what."""
    MEMBERSHIP = "membership"
    """Who belongs to the network and lives: signs of life, joins, moves, elections."""
    REPAIR = "repair"
    CLIENTS = "clients"
    """All that clients and their brokers say to each other, and brokers about clients."""
    OTHER = "other"
    """Of a stack that does not say, or that is not installed where its traces are read."""
