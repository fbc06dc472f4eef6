"""The half of the client that asks and answers."""

import builtins
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, overload

from resprout.client.requesting import REQUEST_SECONDS, Requester, Service
from resprout.client.typed import Payload, TypedMessage, decoder_of
from resprout.core.guarantee import Guarantee, GuaranteeName
from resprout.core.message import Message
from resprout.core.names import AttributeValue

T = TypeVar("T")


class Conversing:
    """A part of `Client`, which has what is said here."""

    _requester: Requester
    _tokens: "itertools.count[int]"

    def _check_open(self) -> None:
        raise NotImplementedError

    @overload
    async def request(
        self,
        topic: str,
        payload: Payload,
        *,
        timeout: float | None = REQUEST_SECONDS,
        guarantee: GuaranteeName | Guarantee = Guarantee.CAUSAL,
        keys: Sequence[str] = (),
        attributes: Mapping[str, AttributeValue] | None = None,
    ) -> Message: ...
    @overload
    async def request(
        self,
        topic: str,
        payload: Payload,
        *,
        type: builtins.type[T],
        timeout: float | None = REQUEST_SECONDS,
        guarantee: GuaranteeName | Guarantee = Guarantee.CAUSAL,
        keys: Sequence[str] = (),
        attributes: Mapping[str, AttributeValue] | None = None,
    ) -> TypedMessage[T]: ...
    async def request(
        self,
        topic: str,
        payload: Payload,
        *,
        timeout: float | None = REQUEST_SECONDS,
        guarantee: GuaranteeName | Guarantee = Guarantee.CAUSAL,
        keys: Sequence[str] = (),
        attributes: Mapping[str, AttributeValue] | None = None,
        type: builtins.type[Any] | None = None,
    ) -> Message | TypedMessage[Any]:
        """Publish a request and return the first reply; with a `type`, one that has a `value`.

        Raises NobodyListensError at once, and nothing was published, when the network knows that nobody listens;
        NoReplyError when no reply comes in time, RequestFailedError when whoever serves it says so.
        """
        self._check_open()
        decode = decoder_of(type) if type is not None else None
        reply = await self._requester.request(
            topic, payload, timeout, guarantee, keys, attributes, next(self._tokens)
        )  # fmt: skip
        return reply if decode is None else TypedMessage(reply, decode)

    @overload
    def serve(self, topic: str, where: str | None = None) -> Service[Any]: ...
    @overload
    def serve(self, topic: str, where: str | None = None, *, type: builtins.type[T]) -> Service[T]: ...
    def serve(self, topic: str, where: str | None = None, *, type: builtins.type[Any] | None = None) -> Service[Any]:
        """Requests on a topic, or on all that a filter matches: `async for request in client.serve("price/+")`."""
        self._check_open()
        return self._requester.serve(topic, where, type)
