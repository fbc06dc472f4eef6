"""One life of one client in real time: its application on the client machine, behind a socket.

What the machine has for the application waits until the step that caused it is complete, as in the virtual world. A
delivery counts as taken when the application has had it: no `delivered` receipt is ever ahead of the row.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from resprout.core.contract import Answer, Deliver, Effect, Request
from resprout.edge.client.machine import ClientMachine, ClientOptions
from resprout.edge.requests import FlushRequest, Published, TakeRequest
from resprout.links.options import LinkOptions
from resprout.net.address import Address
from resprout.net.run.life import RealLife
from resprout.net.run.row_file import RowWriter
from resprout.net.run.schedule import ScheduledApp
from resprout.net.run.tally import Tally
from resprout.net.tls.keyring import Keyring
from resprout.scenario.app import App
from resprout.scenario.app_runner import AppRunner
from resprout.scenario.model import PLAIN_WHEN_FULL, ClientSpec
from resprout.trace.schema import Row
from resprout.wire.codec import Codec

_WAKE_SECONDS_MIN: Final = 0.001
"""Event loops count milliseconds, and one that wakes early is asked again."""


class RealClient(RealLife):
    """`last_receipt`: the last one that the stack gives. `first_event_us`: of the schedule, see `schedule`. All else as
    for `RealLife`."""

    def __init__(
        self,
        spec: ClientSpec,
        incarnation: int,
        app: App,
        seed: int,
        codec: Codec,
        options: LinkOptions,
        find: Callable[[str], Address | None],
        brokers: Sequence[str],
        delays_us: Mapping[str, int],
        writer: RowWriter,
        on_note: Callable[[Row], None],
        bundle_max: int,
        last_receipt: str,
        first_event_us: int,
        keyring: Keyring | None = None,
    ) -> None:
        # Whoever returns has been here before, and turns to others when its own broker is gone meanwhile.
        others = brokers if incarnation > 1 else ()
        client_options = ClientOptions(takes_at_once=False, bundle_max=bundle_max)
        machine = ClientMachine(spec.name, incarnation, spec.broker, client_options, others)
        machine.when_full = PLAIN_WHEN_FULL[spec.when_full]
        super().__init__(
            machine, spec.name, incarnation, seed, codec, options, find, delays_us, writer, on_note, self._take,
            Tally(last_receipt), keyring,
        )  # fmt: skip
        self._app = ScheduledApp(app, first_event_us)
        self._runner = AppRunner(self, machine, self._app)
        self._loop = asyncio.get_running_loop()
        self._heard: deque[Deliver | Answer] = deque()
        """For the application."""
        self._handing_over = False
        self._taken = 0
        """Deliveries that the application has had and the machine has not been told of."""
        self._unsent = False
        self._idle_us = spec.idle_us or (0, 0)
        self._resuming = False
        """It will be woken when it reads again."""

    # -- for the process ---------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        return not self.over and not self._runner.over and not self._runner.app.done

    @property
    def pending(self) -> int:
        """Publications and requests without an outcome; of one that is over, nothing is awaited."""
        return 0 if self.over or self._runner.over else self.tally.pending + self._runner.unnumbered

    def start(self, start_us: int) -> None:
        super().start(start_us)
        self._runner.start()
        self._send()

    def begin(self, held_us: int) -> None:
        """The schedule goes on."""
        self._app.release(held_us)
        self._runner.woke()
        self._send()

    # -- for the runner ----------------------------------------------------------------------------------------------

    def wake(self, at_us: int) -> None:
        wait_s = max(_WAKE_SECONDS_MIN, (at_us - self.now_us) / 1e6)
        self._loop.call_later(wait_s, self._wake, at_us)

    def perform(self, answers: Sequence[Effect]) -> None:
        self._host.perform(answers)

    def flush(self) -> None:
        self._unsent = True

    # -- inside ------------------------------------------------------------------------------------------------------

    def _take(self, effect: Deliver | Answer) -> None:
        if isinstance(effect, Answer) and isinstance(effect.body, Published):  # it may leave right behind this answer
            self._runner.numbered(effect)
            self._writer.save()
        self._heard.append(effect)
        if not self._handing_over:
            self._handing_over = True
            self._loop.call_soon(self._hand_over)

    def _hand_over(self) -> None:
        self._handing_over = False
        heard, self._heard = self._heard, deque()
        if self.over:
            return
        for effect in heard:
            self._runner.given(effect)
            if isinstance(effect, Deliver):
                self._taken += 1
        self._send()

    def _wake(self, at_us: int) -> None:
        if self.over:
            return
        if self.now_us < at_us:
            self.wake(at_us)
            return
        self._runner.woke()
        self._send()

    def _take_now(self) -> int:
        """Deliveries to be told as taken; none while the program does not read."""
        begin_us, end_us = self._idle_us
        if begin_us <= self.now_us < end_us:
            if not self._resuming and self._taken:
                self._resuming = True
                self.wake(end_us)
            return 0
        taken, self._taken = self._taken, 0
        return taken

    def _send(self) -> None:
        """Let the machine send what it was asked for and say what was taken."""
        self._writer.save()
        taken = self._take_now()
        unsent, self._unsent = self._unsent, False
        if taken:
            self._host.handle(Request(TakeRequest(taken)))
        elif unsent:
            self._host.handle(Request(FlushRequest()))
