"""Handles SUBSCRIBE and UNSUBSCRIBE: checks options, asks the tree, and sends SUBACK or UNSUBACK.

A subscription is active from the request on, because messages may arrive before the tree confirms it. If the tree
refuses it, the subscription that it replaced is restored.
"""

from collections.abc import Sequence
from typing import Final

from resprout.mqtt.actions import Action, BeginSubscriptions, EndSubscriptions, SendRetained
from resprout.mqtt.limits import ServerLimits
from resprout.mqtt.packet_sender import PacketSender
from resprout.mqtt.packets import V5, FilterRequest, Suback, Subscribe, Unsuback, Unsubscribe
from resprout.mqtt.reasons import FAILURE, MqttError, Reason, protocol_error
from resprout.mqtt.records import PendingRequest, Subscription
from resprout.mqtt.state import SessionState
from resprout.mqtt.subscriptions import granted, read_filter, size_of_filter


class SubscribeHandling:
    def __init__(self, state: SessionState, limits: ServerLimits, sender: PacketSender) -> None:
        self._state = state
        self._limits = limits
        self._sender = sender

    # -- packets -------------------------------------------------------------------------------------------------------

    def subscribe(self, packet: Subscribe, out: list[Action]) -> None:
        identifiers = packet.properties.subscription_identifiers
        identifier = identifiers[0] if identifiers else 0
        asked = PendingRequest(packet.packet_id, self._state.connection, [], [])
        requests: list[tuple[str, str, FilterRequest, bool]] = []
        for request, refusal in [(request, _refusal_of(request)) for request in packet.requests]:
            try:
                if refusal is not None:
                    raise refusal
                subscription = self._read(request, identifier)
            except MqttError as error:
                asked.reasons.append(error.reason)
                continue
            before = self._state.subscriptions.get(request.filter)
            self._state.subscriptions.put(subscription)
            asked.reasons.append(-1)
            asked.new.append((subscription, before))
            requests.append((subscription.topic_filter, subscription.group, subscription.request, before is None))
        if not requests:
            self._suback(asked, out)
            return
        token = self._enter(asked)
        out.append(BeginSubscriptions(token, tuple(requests)))

    def unsubscribe(self, packet: Unsubscribe, out: list[Action]) -> None:
        asked = PendingRequest(packet.packet_id, self._state.connection, [], [])
        filters: list[str] = []
        missing = [_why_missing(topic_filter) for topic_filter in packet.filters]
        for topic_filter, reason in zip(packet.filters, missing, strict=True):
            subscription = self._state.subscriptions.remove(topic_filter)
            if subscription is None:
                asked.reasons.append(reason)
            else:
                asked.reasons.append(-1)
                asked.new.append((subscription, None))
                filters.append(topic_filter)
        if not filters:
            self._unsuback(asked, out)
            return
        token = self._enter(asked)
        out.append(EndSubscriptions(token, tuple(filters)))

    def _read(self, request: FilterRequest, identifier: int) -> Subscription:
        topic_filter, group = read_filter(request.filter)
        if group and not self._limits.shared_available:
            raise MqttError(Reason.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED, "shared subscriptions are not supported")
        state, limits = self._state, self._limits
        if len(state.subscriptions) >= limits.subscriptions_max and state.subscriptions.get(request.filter) is None:
            raise MqttError(Reason.QUOTA_EXCEEDED, f"a session has at most {limits.subscriptions_max} subscriptions")
        size = state.subscriptions.bytes + size_of_filter(request.filter)
        if size > limits.subscription_bytes_max and state.subscriptions.get(request.filter) is None:
            raise MqttError(
                Reason.QUOTA_EXCEEDED, f"a session has at most {limits.subscription_bytes_max} bytes of filters"
            )
        return Subscription(granted(request, limits.maximum_qos), topic_filter, group, identifier)

    def _enter(self, asked: PendingRequest) -> int:
        if len(self._state.pending_requests) >= self._limits.pending_requests_max:
            raise MqttError(
                Reason.QUOTA_EXCEEDED,
                f"more than {self._limits.pending_requests_max} unanswered SUBSCRIBE and UNSUBSCRIBE packets",
            )
        if self._state.pending_filters + len(asked.new) > self._limits.pending_filters_max:
            raise MqttError(
                Reason.QUOTA_EXCEEDED,
                f"more than {self._limits.pending_filters_max} topic filters in unanswered packets",
            )
        token = self._state.next_token()
        self._state.pending_requests[token] = asked
        self._state.pending_filters += len(asked.new)
        return token

    def _answered(self, token: int) -> PendingRequest | None:
        asked = self._state.pending_requests.pop(token, None)
        if asked is not None:
            self._state.pending_filters -= len(asked.new)
        return asked

    # -- outcomes ------------------------------------------------------------------------------------------------------

    def subscribed(self, token: int, reasons: Sequence[int], out: list[Action]) -> None:
        """Handle the result of `BeginSubscriptions`: one reason code per requested filter, 0 if confirmed."""
        asked = self._answered(token)
        if asked is None:
            return
        confirmed: list[tuple[Subscription, bool]] = []
        for place, (subscription, before), reason in zip(_open_places(asked), asked.new, reasons, strict=True):
            is_refused = reason >= FAILURE
            if is_refused:
                self._take_back(subscription, before)
            else:
                confirmed.append((subscription, before is None))
            asked.reasons[place] = reason if is_refused else subscription.request.qos
        if asked.connection == self._state.connection and self._sender.is_live:
            self._suback(asked, out)
            for subscription, is_new in confirmed:
                handling = subscription.request.retain_handling
                if not subscription.group and (handling == 0 or (handling == 1 and is_new)):
                    out.append(SendRetained(subscription))

    def unsubscribed(self, token: int, reasons: Sequence[int], out: list[Action]) -> None:
        asked = self._answered(token)
        if asked is None:
            return
        for place, (subscription, _), reason in zip(_open_places(asked), asked.new, reasons, strict=True):
            asked.reasons[place] = reason
            if reason >= FAILURE and self._state.subscriptions.get(subscription.request.filter) is None:
                self._state.subscriptions.put(subscription)
        if asked.connection == self._state.connection and self._sender.is_live:
            self._unsuback(asked, out)

    def _take_back(self, subscription: Subscription, before: Subscription | None) -> None:
        """Restore the previous subscription, unless a later SUBSCRIBE has replaced this one."""
        if self._state.subscriptions.get(subscription.request.filter) is subscription:
            if before is None:
                self._state.subscriptions.remove(subscription.request.filter)
            else:
                self._state.subscriptions.put(before)

    def _suback(self, asked: PendingRequest, out: list[Action]) -> None:
        reasons = asked.reasons
        if self._sender.version != V5:
            reasons = [min(reason, FAILURE) for reason in reasons]
        self._sender.send(Suback(asked.packet_id, tuple(reasons)), "", out)

    def _unsuback(self, asked: PendingRequest, out: list[Action]) -> None:
        reasons = tuple(asked.reasons) if self._sender.version == V5 else ()
        self._sender.send(Unsuback(asked.packet_id, reasons), "", out)


def _open_places(asked: PendingRequest) -> list[int]:
    """Return the places of the filters that the tree had to answer."""
    return [place for place, reason in enumerate(asked.reasons) if reason < 0]


_FATAL: Final = (Reason.MALFORMED_PACKET, Reason.PROTOCOL_ERROR)


def _refusal_of(request: FilterRequest) -> MqttError | None:
    """Return why this filter is refused. Raises MqttError if the connection must be closed."""
    try:
        if read_filter(request.filter)[1] and request.no_local:
            raise protocol_error("a shared subscription with No Local")
    except MqttError as error:
        if error.reason in _FATAL:
            raise
        return error
    return None


def _why_missing(topic_filter: str) -> Reason:
    """Return the reason code for a filter that is not subscribed. Raises MqttError if the connection must be closed."""
    try:
        read_filter(topic_filter)
    except MqttError as error:
        if error.reason in _FATAL:
            raise
        return error.reason
    return Reason.NO_SUBSCRIPTION_EXISTED
