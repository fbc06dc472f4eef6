"""Whatever dies, freezes or returns: a client forgets nothing, says nothing differently, and gets everything once."""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.edge.client.machine import ClientOptions
from resprout.edge.requests import PublishRequest, SubscribeRequest, UnsubscribeRequest
from tests.edge.mortal_network import BROKERS, STREAMS, Broker, MortalNetwork
from tests.soak import cases


class Story:
    """What may happen. Each is told by a number how to."""

    def __init__(self) -> None:
        self.network = MortalNetwork(ClientOptions(take_deliveries=2))
        self.wanted: dict[str, None] = {}
        for _ in range(5):
            self.network.work()

    def some_broker(self, how: int) -> str:
        """Mostly one that matters: that serves, or is asked to."""
        home, candidate = self.network.machine.broker, self.network.candidate or self.network.machine.broker
        return (home, home, home, candidate, candidate, *BROKERS)[how % 9]

    # -- what the application does -------------------------------------------------------------------------------------

    def publish(self, how: int) -> None:
        guarantee = tuple(Guarantee)[how % 4]
        for _ in range(how % 3 + 1):
            self.network.ask(PublishRequest("t", bytes(how % 2 * 300), guarantee))

    def subscribe_or_end_it(self, how: int) -> None:
        topic = "ab"[how % 2]
        if topic in self.wanted:
            del self.wanted[topic]
            self.network.ask(UnsubscribeRequest(topic))
        else:
            self.wanted[topic] = None
            self.network.ask(SubscribeRequest(topic))

    # -- what goes well ------------------------------------------------------------------------------------------------

    def work(self, how: int) -> None:
        for _ in range(how % 6 + 1):
            self.network.work()

    def connect(self, how: int) -> None:
        self.network.connect(self.some_broker(how))

    def arrive(self, how: int) -> None:
        self.network.arrive(self.some_broker(how))

    def hear(self, how: int) -> None:
        self.network.hear(self.some_broker(how))

    def serve(self, how: int) -> None:
        self.network.answer(self.some_broker(how))

    def receipt(self, how: int) -> None:
        self.network.receipt(self.some_broker(how), STREAMS[how % 2], tuple(ReceiptLevel)[how % 3])

    def give(self, how: int) -> None:
        self.network.produced += 1
        for _ in range(how % 3 + 1):
            self.network.give(self.some_broker(how))

    def let_time_pass(self, how: int) -> None:
        self.network.fire()

    # -- what goes wrong -----------------------------------------------------------------------------------------------

    def send_on(self, how: int) -> None:
        self.network.answer(self.some_broker(how), send_on=self.some_broker(how // 9))

    def kill(self, how: int) -> None:
        self.network.kill(self.some_broker(how), arriving=how // 9 % 4)

    def restart(self, how: int) -> None:
        self.network.restart(self.some_broker(how))

    def freeze_or_thaw(self, how: int) -> None:
        broker: Broker = self.network.brokers[self.some_broker(how)]
        broker.frozen = not broker.frozen

    def break_connection(self, how: int) -> None:
        self.network.suspect(self.some_broker(how))

    def grow_impatient(self, how: int) -> None:
        """The broker is silent for long enough that another one is asked, and may be about to answer."""
        self.network.suspect(self.network.machine.broker)
        self.network.fire()
        candidate = self.network.candidate
        if candidate is not None:
            self.network.connect(candidate)
            self.network.hear(candidate)

    # -- what must be --------------------------------------------------------------------------------------------------

    def check(self) -> None:
        count = len(self.network.delivered)
        assert self.network.delivered == [(place, place + 1) for place in range(count)], "dense, and each once"

    def check_end(self) -> None:
        network = self.network
        network.heal()
        self.check()
        assert network.safe == network.published, "everything that was published is there"
        assert len(network.machine.publishing.unconfirmed) == 0
        assert len(network.delivered) == network.produced
        assert list(network.opened) == [network.machine.broker], "nobody else is kept busy"
        home = network.brokers[network.machine.broker].session
        assert home is not None
        assert sorted(filter for filter, _ in home.subscriptions.values()) == sorted(self.wanted)


OFTEN = (Story.publish, Story.work, Story.arrive, Story.hear, Story.connect, Story.give, Story.receipt)
SELDOM = (
    Story.subscribe_or_end_it, Story.serve, Story.let_time_pass, Story.send_on, Story.kill, Story.restart,
    Story.freeze_or_thaw, Story.break_connection, Story.grow_impatient,
)  # fmt: skip

steps = st.tuples(st.sampled_from(OFTEN + OFTEN + SELDOM), st.integers(0, 999))


def tell(story: list[tuple[Callable[[Story, int], None], int]]) -> None:
    told = Story()
    for happen, how in story:
        happen(told, how)
        told.check()
    told.check_end()


@settings(max_examples=cases(50, 150), deadline=None, derandomize=True)
@given(st.lists(steps, min_size=80, max_size=160))
def test_brokers_may_die_freeze_and_return_at_any_moment(
    story: list[tuple[Callable[[Story, int], None], int]],
) -> None:
    tell(story)
