"""Arguments of `publish_and_ack`."""

from collections.abc import Mapping, Sequence

from resprout.client.inbox import Payload, payload_of
from resprout.core.errors import UsageError
from resprout.core.limits import AttributeValue, check_attributes, check_keys, check_payload, check_topic
from resprout.core.message import Message
from resprout.edge.requests import FollowUpRequest
from resprout.values.rows import KV_PREFIX, RETAIN_KEY


def follow_up(
    message: Message,
    topic: str,
    payload: Payload,
    keys: Sequence[str],
    attributes: Mapping[str, AttributeValue] | None,
) -> FollowUpRequest:
    """Return the request. UsageError for a wrong argument."""
    topic, keys = check_topic(topic), check_keys(keys)
    if topic.startswith(KV_PREFIX) or RETAIN_KEY in keys:
        raise UsageError(f"topic={topic!r}: a last value is a total, and a follow-up is none")
    return FollowUpRequest(
        message, topic, check_payload(payload_of(payload)), tuple(keys), check_attributes(attributes or {})
    )
