"""Which faults of its brokers a stack survives with all its promises kept: what a swarm may do to it, and no more."""

import msgspec


class Survival(msgspec.Struct, frozen=True):
    """At most `faults` of the brokers on any path of `span` are down at once, counted until their repair is complete.
    Whatever is False is never done to a broker. The least, which is the default, is nothing but what needs no repair:
    short pauses, and connections that break and come back."""

    faults: int = 0
    span: int | None = None
    """In brokers; None: of the whole network."""
    each_site: bool = False
    """Whether that is counted for each site by itself, whoever is down in others; of those that never return, too."""
    majority: bool = False
    """A majority of the 2f + 1 brokers nearest to the root must be left of those that do not crash for all to see."""
    least: int = 0
    """So many brokers have to live for any of them to fall: with fewer, something is held by too few."""
    silent_hosts: bool = False
    """Whether a broker may go without a word from its host."""
    freezes: bool = False
    """Whether one may stop for longer than it takes to be declared dead, and go on."""
    clients_restart_at_home: bool = False
    """Whether a client that crashes must find its own broker when it starts again. Elsewhere it may be overtaken by all
    that its earlier life had published at a broker that is frozen or cut off. So these are not drawn together."""
    cuts: bool = False
    """Whether up to f brokers may be cut off from all others, and come back; and clients for so long that they turn to
    other brokers, while their own one lives."""
    partitions: bool = False
    """Whether the network may be in two for a while, each part larger than f."""
    joins: bool = False
    leaves: bool = False
    recovers_with_disk: bool = False
    """Whether a crashed broker may start again with what it had persisted."""
    recovers_without_disk: bool = False
    """Whether it may with nothing."""
    returns_early: bool = False
    """Whether a crashed broker may be back before its repair is complete."""
    all_return: bool = False
    """Whether every broker that crashes has to start again: its clients wait for it, and for nobody else."""
    again: bool = False
    """Whether more may fall when the repair of those before is complete."""

    @property
    def recovers(self) -> bool:
        return self.recovers_with_disk or self.recovers_without_disk


NOTHING = Survival()


def everything(faults: int) -> Survival:
    """Of a tree that repairs itself around any f of its brokers on a path of 2f + 1."""
    return Survival(
        faults, 2 * faults + 1, majority=True, silent_hosts=True, freezes=True, cuts=True, partitions=True, joins=True,
        leaves=True, recovers_with_disk=True, recovers_without_disk=True, returns_early=True, again=True,
    )  # fmt: skip
