"""What clients here want: topics by name, each with its tree; and filters with wildcards, for which this broker learns
which topics there are.

Every topic that is founded is announced in one that nobody else publishes on, the *directory*, which is kept whole. A
topic that ended is retracted there.
A broker with a filter reads it, and wants the topics that match: those that are there when the filter is confirmed
from then on, those that are announced later from their beginning. So a filter misses nothing either.

A wish is confirmed when this broker is in the trees that it needs. A client that was elsewhere before may have seen
more of a topic than has come here; so it is asked first how far the topic has come, and this client is shown only what
lies beyond (`shows`).

A broker may be in the tree of a topic for others before it learns that there is the topic: then it goes back to the
beginning for the filter, and whoever has been shown something is not shown it again.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from resprout.core.errors import PeerError
from resprout.filters.predicate import Predicate, is_plain, topic_matches
from resprout_lab.blocks.recorded import Recorded
from resprout_lab.blocks.subscriptions import Subscriptions
from resprout_lab.scribe.trees import Trees

DIRECTORY: Final = "$scribe/topics"
"""Where topics are announced."""


class TopicNews(msgspec.Struct, frozen=True, array_like=True):
    """What the directory says of one log of a topic."""

    topic: str
    group: str
    is_ended: bool = False

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @staticmethod
    def decode(data: bytes) -> "TopicNews":
        """PeerError for bytes that no honest broker announces."""
        try:
            return msgspec.msgpack.decode(data, type=TopicNews)
        except msgspec.MsgspecError as error:
            raise PeerError(f"an announcement that cannot be read: {error}") from None


class _Wish:
    __slots__ = ("client", "predicate", "reads", "topics")

    def __init__(self, client: str, predicate: Predicate) -> None:
        self.client = client
        self.predicate = predicate
        self.reads: dict[str, None] = {}
        """Topics of which it has to be known how far they have come."""
        self.topics: dict[str, None] = {}
        """That it is for, as far as they are known."""


class TopicWishes:
    """For sessions of clients, `ports.SubscriptionPort`."""

    def __init__(
        self,
        trees: Trees,
        was_elsewhere: Callable[[str], bool],
        read: Callable[[str], None],
        begins: Callable[[str, dict[str, int]], None] = lambda client, places: None,
    ) -> None:
        """`was_elsewhere`: a client; `read` asks how far a topic has come (`has_come`). `begins` is told, just before a
        wish of a client is confirmed, behind which position of each topic it is shown everything."""
        self._begins = begins
        self._trees = trees
        self._was_elsewhere = was_elsewhere
        self._read = read
        self.table = Subscriptions()
        self.topics: dict[str, str] = {}
        """Those that were announced, as far as that has come here, and the group of the latest log of each."""
        self._unread: dict[str, str] = {}
        """Like `topics`, while this broker has read only a part of the directory."""
        self._users: dict[str, dict[Predicate, int]] = {}
        """By topic: what it is wanted for, and by how many clients."""
        self._open: dict[tuple[str, Predicate], _Wish] = {}
        self._reading: dict[str, list[_Wish]] = {}
        """By topic: for whom it was asked how far it has come."""
        self._known: dict[tuple[str, str], int] = {}
        """(client that was elsewhere, topic): how far it had come when this client came."""
        self._shown: dict[tuple[str, str], int] = {}
        """(client, topic): it has what lies up to here, or is not shown it."""
        self._behind: dict[tuple[str, str], int] = {}
        """(client, topic): it lacks something up to here that is not kept, and its session is about to end."""

    def bring(self, client: str, places: Mapping[str, int]) -> None:
        """A client goes on where it was: what it wants next is wanted behind these positions (`want`, confirmed)."""
        for topic, position in places.items():
            self._shown[client, topic] = position

    # -- of sessions ---------------------------------------------------------------------------------------------------

    def want(self, client: str, predicate: Predicate, confirmed: bool = False) -> list[Recorded]:
        self.table.add(client, predicate, predicate)
        if confirmed:
            self._go_on(client, predicate)
            return []
        wish = self._open[client, predicate] = _Wish(client, predicate)
        if is_plain(predicate.filter):
            if DIRECTORY in self._users:  # whose clients would otherwise have its beginning behind the rest
                self.announced(predicate.filter)
            self._need(wish, predicate.filter)
        else:
            self._read_directory()
            self._need(wish, DIRECTORY)
            for topic in self._matching(predicate):
                self._need(wish, topic)
        return self.look()

    def drop(self, client: str, predicate: Predicate) -> list[Recorded]:
        self.table.remove(client, predicate)
        self._open.pop((client, predicate), None)
        for topic in [topic for topic, users in self._users.items() if predicate in users]:
            users = self._users[topic]
            users[predicate] -= 1
            if not users[predicate]:
                del users[predicate]
            if not users:
                del self._users[topic]
                self._trees.unwant(topic)
        return []

    def drop_all(self, client: str) -> list[Recorded]:
        for predicate in self.table.of(client):
            self.drop(client, predicate)
        for known in (self._shown, self._known, self._behind):
            for key in [key for key in known if key[0] == client]:
                del known[key]
        return []

    def shows(self, client: str, topic: str, position: int) -> bool:
        """Whether this client is shown what has this position: once, in order, and what it asked for. A filter gets
        nothing of a topic before it was announced, or it would have it out of order."""
        if position <= self.reached(client, topic) or not self.wants(client, topic) or (client, topic) in self._behind:
            return False
        if any(topic in wish.reads for wish in self._open.values() if wish.client == client):
            return False
        self._shown[client, topic] = position
        return True

    @property
    def is_waiting(self) -> bool:
        """Somebody's wish is not confirmed."""
        return bool(self._open)

    def wants(self, client: str, topic: str) -> bool:
        """In whatever words."""
        wanted = self._users.get(topic, {})
        return any(predicate in wanted for predicate in self.table.of(client))

    # -- of trees ------------------------------------------------------------------------------------------------------

    def look(self) -> list[Recorded]:
        """Which of the wishes are confirmed by now."""
        met = [wish for wish in self._open.values() if self._is_met(wish)]
        for wish in met:
            del self._open[wish.client, wish.predicate]
            self._begins(wish.client, {topic: self._begin(wish, topic) for topic in wish.topics})
        return [Recorded(wish.client, wish.predicate, {}) for wish in met]

    def hear_news(self, news: TopicNews, is_behind: bool) -> None:
        """Of the directory. `is_behind`: more of it is on its way, which may say that the topic has ended: no topic is
        joined before that is known. A topic that is wanted here stays known: its next log is announced as well."""
        topic = news.topic
        if not news.is_ended:
            self._unread[topic] = news.group
        elif self._unread.get(topic) == news.group:
            del self._unread[topic]
        elif self.topics.get(topic) == news.group and topic not in self._users:
            del self.topics[topic]
        if not is_behind:
            unread, self._unread = self._unread, {}
            for topic, group in unread.items():
                self.announced(topic, group)

    def _read_directory(self) -> None:
        """Forget what was read in an earlier visit to its tree: it is read again from its beginning."""
        if self._trees.position(DIRECTORY) is None:
            self.topics = {topic: group for topic, group in self.topics.items() if topic in self._users}

    def announced(self, topic: str, group: str = "") -> None:
        """There is this topic."""
        if topic in self.topics:
            self.topics[topic] = group or self.topics[topic]
            return
        self.topics[topic] = group
        for predicate, clients in list(self._users.get(DIRECTORY, {}).items()):
            if topic_matches(predicate.filter, topic):
                waiting = [wish for wish in self._open.values() if wish.predicate == predicate]
                for wish in waiting:
                    self._need(wish, topic)
                after = min([self._shown.get((name, topic), 0) for name in self._readers(predicate)], default=0)
                for _ in range(clients - len(waiting)):
                    self._use(topic, predicate, after)

    def reached(self, client: str, topic: str) -> int:
        """Return the position up to which this client has the topic."""
        return self._shown.get((client, topic), 0)

    def stop_behind(self, clients: Iterable[str], topic: str, position: int) -> tuple[str, ...]:
        """Return the clients that lack something up to this position. They are shown nothing more of the topic: it
        would move their positions past what they lack, and the next broker would not know that they missed it."""
        names = [name for name in clients if self.reached(name, topic) < position and self.wants(name, topic)]
        self._behind.update(((name, topic), position) for name in names)
        return tuple(names)

    def has_come(self, topic: str, position: int) -> None:
        """As far as that, when it was asked. Whoever has come since has to ask again."""
        for wish in self._reading.pop(topic, []):
            wish.reads.pop(topic, None)
            self._shown[wish.client, topic] = max(position, self._shown.get((wish.client, topic), 0))
            self._known[wish.client, topic] = position
        for wish in self._open.values():  # another wish of the same client: one answer is for all of them
            if (wish.client, topic) in self._known:
                wish.reads.pop(topic, None)
        later = [wish for wish in self._open.values() if topic in wish.reads]
        if later:
            self._reading[topic] = later
            self._read(topic)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _go_on(self, client: str, predicate: Predicate) -> None:
        """With a wish that was confirmed elsewhere."""
        if not is_plain(predicate.filter):
            self._read_directory()
        topics = [predicate.filter] if is_plain(predicate.filter) else self._matching(predicate)
        if not is_plain(predicate.filter):
            self._use(DIRECTORY, predicate, None)
        elif DIRECTORY in self._users:
            self.announced(predicate.filter)
        for topic in topics:
            self._use(topic, predicate, self._shown.get((client, topic), 0))

    def _begin(self, wish: _Wish, topic: str) -> int:
        """Behind which position of the topic everything is shown, now that the wish is confirmed."""
        key = (wish.client, topic)
        if topic == DIRECTORY or not self._is_covered(wish, topic):
            self._shown[key] = max(self._shown.get(key, 0), self._trees.position(topic) or 0)
        return self._shown.get(key, 0)

    def _readers(self, predicate: Predicate) -> list[str]:
        """Clients with a confirmed wish of this kind."""
        return [name for name in self.table.holders(predicate) if (name, predicate) not in self._open]

    def _matching(self, predicate: Predicate) -> list[str]:
        return [topic for topic in self.topics if topic_matches(predicate.filter, topic)]

    def _need(self, wish: _Wish, topic: str) -> None:
        wish.topics[topic] = None
        is_known = (wish.client, topic) in self._known or self._is_covered(wish, topic)
        if self._was_elsewhere(wish.client) and not is_known:
            wish.reads[topic] = None
            if topic not in self._reading:
                self._reading[topic] = [wish]
                self._read(topic)
        self._use(topic, wish.predicate, None)
        if not wish.reads and not self._is_covered(wish, topic):  # others here may go back to what was before
            key = (wish.client, topic)
            self._shown[key] = max(self._shown.get(key, 0), self._trees.position(topic) or 0)

    def _is_covered(self, wish: _Wish, topic: str) -> bool:
        """A wish of the same client that is confirmed is for this topic, too, perhaps from its beginning: the client is
        shown all that it misses, and nothing that has come since is to be passed over."""
        users = self._users.get(topic, {})
        others = [predicate for predicate in self.table.of(wish.client) if predicate != wish.predicate]
        return any(other in users and (wish.client, other) not in self._open for other in others)

    def _use(self, topic: str, predicate: Predicate, after: int | None) -> None:
        users = self._users.setdefault(topic, {})
        users[predicate] = users.get(predicate, 0) + 1
        self._trees.want(topic, after)
        if after is not None:
            self._trees.rewind(topic, after)

    def _is_met(self, wish: _Wish) -> bool:
        for topic in wish.topics:
            if topic in wish.reads or not self._trees.is_in(topic):
                return False
            if topic == DIRECTORY and not self._has_read(wish):
                return False
        return True

    def _has_read(self, wish: _Wish) -> bool:
        """The directory, as far as it had come."""
        place = self._trees.places[DIRECTORY]
        assert place.position is not None, "it is in its tree"
        return place.position >= max(place.missing, self._known.get((wish.client, DIRECTORY), 0))
