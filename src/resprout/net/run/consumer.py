"""One life of one client that consumes a durable subscription, in real time, behind a socket."""

from collections.abc import Callable, Mapping, Sequence

from resprout.core.contract import Answer, Deliver, Request
from resprout.edge.requests import AcknowledgeRequest
from resprout.links.options import LinkOptions
from resprout.net.address import Address
from resprout.net.run.life import RealLife
from resprout.net.run.row_file import RowWriter
from resprout.net.run.tally import Tally
from resprout.net.tls.keyring import Keyring
from resprout.scenario.consuming import ConsumerRows, make_consumer
from resprout.scenario.model import ClientSpec, SubscriptionSpec
from resprout.trace.schema import Row
from resprout.wire.codec import Codec


class RealConsumer(RealLife):
    """As `RealClient`, for whoever runs both."""

    def __init__(
        self,
        spec: ClientSpec,
        wanted: SubscriptionSpec,
        incarnation: int,
        seed: int,
        codec: Codec,
        options: LinkOptions,
        find: Callable[[str], Address | None],
        brokers: Sequence[str],
        delays_us: Mapping[str, int],
        writer: RowWriter,
        on_note: Callable[[Row], None],
        keyring: Keyring | None = None,
    ) -> None:
        machine = make_consumer(spec, wanted, incarnation, tuple(brokers))
        super().__init__(
            machine, spec.name, incarnation, seed, codec, options, find, delays_us, writer, on_note, self._take,
            Tally(), keyring,
        )  # fmt: skip
        self.busy = False
        self.pending = 0
        self._rows = ConsumerRows(spec, wanted, incarnation)

    def start(self, start_us: int) -> None:
        super().start(start_us)
        self.record(self._rows.began(self.now_us))

    def begin(self, held_us: int) -> None:
        """It does nothing by a schedule."""

    def _take(self, effect: Deliver | Answer) -> None:
        for row in self._rows.given(self.now_us, effect):
            self.record(row)
        if isinstance(effect, Deliver):
            for message in effect.messages:
                self.record(self._rows.acknowledged(self.now_us, message))
            self._writer.save()  # before the acknowledgement leaves
            self._host.loop.call_soon(self._host.handle, Request(AcknowledgeRequest(tuple(effect.messages))))
