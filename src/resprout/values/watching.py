"""The keys of a bucket as a watcher follows them.

A watcher is given the last values first and then every write, in the order in which brokers apply them. So it decides
as they do which of the writes that expect a revision are applied. Publications on the topics of keys that are not
retained, and those on other topics that only name them in a key, are no writes: no broker applies them.
"""

from resprout.core.guarantee import Guarantee
from resprout.core.message import Message
from resprout.values.rows import RETAIN_KEY, expected_of, removes


class KeyReplica:
    def __init__(self, prefix: str) -> None:
        """`prefix`: with which the topics of the keys begin."""
        self._prefix = prefix
        self._revisions: dict[str, int] = {}

    def apply(self, message: Message) -> bool:
        """Follow a message. Return whether it changes its key."""
        topic = message.topic
        is_write = message.retained or (message.guarantee is Guarantee.TOTAL and RETAIN_KEY in message.keys)
        if not is_write or not topic.startswith(self._prefix):
            return False
        known = self._revisions.get(topic, 0)
        if not message.retained:
            expected = expected_of(topic, message.attributes)
            if expected is not None and expected != known:
                return False
            if removes(topic, message.attributes, message.payload):
                return self._revisions.pop(topic, None) is not None
        self._revisions[topic] = message.tseq
        return True
