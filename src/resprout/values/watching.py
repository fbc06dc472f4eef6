"""The keys of a bucket as a watcher follows them.

A watcher is given the last values first and then every write, in the order in which brokers apply them. So it decides
as they do which of the writes that expect a revision are applied.
"""

from resprout.core.message import Message
from resprout.values.rows import expected_of, removes


class KeyReplica:
    def __init__(self) -> None:
        self._revisions: dict[str, int] = {}

    def apply(self, message: Message) -> bool:
        """Follow a message. Return whether it changes its key."""
        topic = message.topic
        known = self._revisions.get(topic, 0)
        if not message.retained:
            expected = expected_of(topic, message.attributes)
            if expected is not None and expected != known:
                return False
            if removes(topic, message.attributes, message.payload):
                return self._revisions.pop(topic, None) is not None
        self._revisions[topic] = message.tseq
        return True
