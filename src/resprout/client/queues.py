"""Look at durable subscriptions and groups, and at the dead letters that they leave, without consuming them.

    for one in (await client.subscriptions()).subscriptions:
        print(one.name, one.lag_messages, len(one.consumers))
    await client.replay_dead_letters("workers")

`QueueCalls` is the half of `Client` that does this.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from resprout.client.arguments import check_count
from resprout.client.durable import DurableInbox, consume
from resprout.client.errors import ReadError, SubscribeError, TimedOutError
from resprout.client.past_events import AskingClient
from resprout.client.terms import check_offered_here
from resprout.core.limits import check_name
from resprout.core.message import Message
from resprout.edge.durable_messages import DurableAction, Terms
from resprout.links.options import LinkOptions
from resprout.net.discover import UnreachableError
from resprout.net.survey import Asker, survey
from resprout.stacks.status import DurableSeen

PEEKED: Final = 10
PEEKED_MAX: Final = 1_000
REPLAY_SECONDS: Final = 5.0
"""How long a replay waits for a dead letter that another consumer may have."""
ABOUT: Final = "dead_"
"""Attributes of a dead letter that begin so say where it comes from."""


class SubscriptionsFound(msgspec.Struct, frozen=True):
    """Every durable subscription and group, as the brokers that hold them tell."""

    subscriptions: tuple[DurableSeen, ...]
    """By name."""
    unanswered: tuple[str, ...]
    """Brokers that did not answer: what they hold is missing."""


class QueueCalls(AskingClient):
    """A part of `Client`, which has what is said here."""

    name: str
    _links: LinkOptions

    async def subscriptions(self) -> SubscriptionsFound:
        """Return every durable subscription and group of the network, with its consumers and its lag.

        Asks every broker. Where clients prove their identity, only those that may `observe` or `operate` can do this.
        Raises ReadError if the broker of this client does not answer."""
        self._check_open()
        asker = Asker(self.name, "client", self._host.door.keyring, self._host.door.login)
        address = self._host.where(self._machine.broker)
        try:
            if address is None:
                raise UnreachableError(f"the address of {self._machine.broker} is not known")
            found = await survey(asker, await asker.account(address, self._machine.broker))
        except UnreachableError as error:
            raise ReadError(f"the broker does not tell of its subscriptions: {error}") from None
        seen = [one for broker in found.brokers for one in broker.durables]
        missing = [one.name for one in found.missing if not one.dead]
        return SubscriptionsFound(tuple(sorted(seen, key=lambda one: one.name)), tuple(missing))

    async def peek(self, name: str, count: int = PEEKED) -> Sequence[Message]:
        """Return the next messages that wait for a durable subscription: up to `count`, and about 1 MiB. They stay
        there. Rights are those of a consumer; SubscribeError when there is no such subscription."""
        check_count(count, "count", 1, PEEKED_MAX)
        return (await self._look_into(name, DurableAction.PEEK, count)).shown

    async def purge(self, name: str) -> None:
        """Drop all messages that wait for a durable subscription. Those that consumers have stay. Rights are those of
        `end_subscription`; SubscribeError when there is no such subscription."""
        await self._look_into(name, DurableAction.PURGE, 1)

    async def end_subscription(self, name: str) -> None:
        """End a durable subscription for all consumers and discard its backlog. Where clients prove their identity,
        only its owner, and identities that may `manage` it, can do this. Raises SubscribeError if it does not exist."""
        await self._look_into(name, DurableAction.CONSUME, 1, ends=True)

    async def replay_dead_letters(self, name: str) -> int:
        """Publish the dead letters of a durable subscription again, each on its old topic, and return how many.

        Every subscriber of that topic receives them. A letter is removed once its message is safe; if this program dies
        between the two, the next replay publishes the message again. Replays what waits now. ReadError as for
        `subscriptions`; SubscribeError when the subscription keeps no dead letters."""
        check_name(name, "name of a durable subscription")
        store = next((one for one in (await self.subscriptions()).subscriptions if one.name == f"{name}.dead"), None)
        if store is None:
            raise SubscribeError(f"{name!r} keeps no dead letters")
        inbox = await self._consume_letters(store)
        replayed = 0
        try:
            for _ in range(store.lag_messages):
                letter = await inbox.next(REPLAY_SECONDS)
                topic = str(letter.attributes.get("dead_topic", store.filter))
                attributes = {key: value for key, value in letter.attributes.items() if not key.startswith(ABOUT)}
                receipt = await self.publish(topic, letter.payload, attributes=attributes)
                await receipt.safe()
                letter.ack()
                replayed += 1
        except TimedOutError:
            pass  # another consumer has the rest
        finally:
            await inbox.close()
        return replayed

    async def _consume_letters(self, store: DurableSeen) -> DurableInbox:
        raise NotImplementedError

    async def _look_into(self, name: str, action: DurableAction, count: int, ends: bool = False) -> DurableInbox:
        check_name(name, "name of a durable subscription")
        self._check_open()
        check_offered_here(self._machine.serving)
        over = await consume(
            self._host, self.name, self._machine.brokers, self._links, name, Terms("#", None, False),
            window=count, ends=ends, action=action,
        )  # fmt: skip
        await over.close()
        return over
