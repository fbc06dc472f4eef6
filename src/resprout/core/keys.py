"""Keys belong to topics: a barrier closes over (topic, key) pairs.

A key written plainly belongs to the publication's own topic; `other/topic#key` names a key of another topic (a topic
cannot hold `#`, so the first one divides). A publication is delivered to the subscribers of every topic it names: a
transfer between two banks reaches the replicas of both.
"""

Pair = tuple[str, str]


def pairs_of(topic: str, keys: tuple[str, ...] | list[str]) -> tuple[Pair, ...]:
    """The (topic, key) pairs that a publication names, each once however it was written."""
    return tuple(dict.fromkeys(_pair(topic, key) for key in keys))


def topics_of(topic: str, keys: tuple[str, ...] | list[str]) -> tuple[str, ...]:
    """Every topic that a publication names, its own first."""
    topics = [topic]
    for key in keys:
        if "#" in key and (other := key.partition("#")[0]) not in topics:
            topics.append(other)
    return tuple(topics)


def _pair(topic: str, key: str) -> Pair:
    if "#" not in key:
        return (topic, key)
    other, _, rest = key.partition("#")
    return (other, rest)
