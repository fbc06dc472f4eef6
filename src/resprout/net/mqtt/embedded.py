"""Hosts of embedded clients: native clients that run inside the broker's process on behalf of MQTT clients.

An embedded client is an ordinary client: the tree knows its name, rules apply to it, a client with the same name
elsewhere replaces it, and it reconnects to another broker when the membership of its own broker ends.
"""

import random
import secrets
from collections.abc import Callable
from typing import Final

from resprout.edge.client.consumer import ConsumerMachine
from resprout.edge.client.machine import ClientMachine
from resprout.links.links import Links
from resprout.links.options import LinkOptions
from resprout.mqtt_sessions.ports import OpenerCredentials, Upward
from resprout.net.door import Door
from resprout.net.host import Host
from resprout.net.in_process import InProcessHost
from resprout.net.sessions import CODEC, EncodedBodies, Here, incarnation_max, random_epoch, with_signs_of_life

_RANDOM: Final = random.Random(secrets.randbits(64))
"""One generator for all embedded clients: its state takes 2.5 KB."""
HEARTBEAT_US: Final = 1_000_000
"""Heartbeat interval between an embedded client and its broker, frequent enough for the failure detector. No frames are
lost in between."""
RELEASE_SECONDS: Final = 1.0
"""Time after which nothing calls a closed client any more, such as the ends of its connections."""


class EmbeddedHost(InProcessHost):
    def __init__(
        self,
        machine: ClientMachine | ConsumerMachine,
        name: str,
        incarnation: int,
        listener: Callable[[], Host],
        who: OpenerCredentials,
        hear: Callable[[Upward], None],
        door: Door | None,
    ) -> None:
        """`listener` returns the broker's current host, and `door` holds the credentials for other brokers."""
        links = Links(
            machine,
            name=name,
            role="client",
            incarnation=incarnation,
            rng=_RANDOM,
            options=with_signs_of_life(LinkOptions(heartbeat_us=HEARTBEAT_US)),
            first_epoch=random_epoch(),
            bodies=EncodedBodies(CODEC),
            incarnation_max=incarnation_max,
        )
        self._client = machine
        super().__init__(links, Here(name, "client", incarnation), listener, who, hear, door=door)

    async def close(self, farewell: str | None = None) -> None:
        """Close the host, and free what it has. A client whose session ends for two reasons is closed twice, perhaps
        when it was freed already."""
        if self.is_released:
            return
        await super().close(farewell)
        if not self.is_released:  # somebody else may have closed it meanwhile
            self.is_released = True
            self.loop.call_later(RELEASE_SECONDS, self.release)

    def release(self) -> None:
        super().release()
        self._client.release()
