"""What a client asks its broker for besides messages: brokers to be forgotten, events that are kept, whether anybody
listens. Each is asked of whoever serves; where that one does not offer it, it is answered here.
"""

from collections.abc import Callable
from typing import Any

from resprout.core.contract import Effect, Send
from resprout.edge.client.audience import AudienceQuestions
from resprout.edge.client.forgetting import ForgetRequests
from resprout.edge.client.reading import ReadRequests
from resprout.edge.messages import AudienceTold, BrokersForgotten, EventRead, EventsEnd, Extra
from resprout.edge.requests import AudienceRequest, ForgetRequest, ReadRequest


class Questions:
    def __init__(self) -> None:
        forgetting, reading, audience = ForgetRequests(), ReadRequests(), AudienceQuestions()
        self._forgetting, self._reading, self._audience = forgetting, reading, audience
        self.unsent = False
        """There may be something to send."""
        self.on_request: dict[type, Callable[[Any, int, list[Effect]], None]] = {
            ForgetRequest: self._asks(forgetting.ask),
            ReadRequest: self._asks(reading.ask),
            AudienceRequest: self._asks(audience.ask),
        }
        self.on_message: dict[type, Callable[[Any, int, list[Effect]], None]] = {
            BrokersForgotten: lambda message, now_us, out: forgetting.answered(message, out),
            EventRead: lambda message, now_us, out: reading.came(message, out),
            EventsEnd: lambda message, now_us, out: reading.ended(message, out),
            AudienceTold: lambda message, now_us, out: audience.told(message, out),
        }

    def _asks(self, ask: Callable[[Any, int], None]) -> Callable[[Any, int, list[Effect]], None]:
        def asked(request: Any, token: int, out: list[Effect]) -> None:
            ask(request, token)
            self.unsent = True

        return asked

    def send(self, broker: str, offers: Callable[[Extra], bool], out: list[Effect]) -> None:
        self.unsent = False
        if not offers(Extra.FORGETTING):
            self._forgetting.give_up("brokers of this stack are not told whom to forget: none is waited for", out)
        while (forget := self._forgetting.next()) is not None:
            out.append(Send(broker, forget))
        if not offers(Extra.READING):
            self._reading.give_up(f"{broker} keeps no events: ask a broker that does", out)
        while (read := self._reading.next()) is not None:
            out.append(Send(broker, read))
        if not offers(Extra.AUDIENCE):
            self._audience.give_up(out)
        while (question := self._audience.next()) is not None:
            out.append(Send(broker, question))

    def begin_session(self, out: list[Effect]) -> None:
        """Another broker serves, or the same one anew."""
        self._forgetting.begin_session(out)
        self._reading.begin_session(out)
        self._audience.begin_session()
        self.unsent = True
