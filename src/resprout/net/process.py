"""A broker in a process of its own, as its parent process sees it.

The child is `python -m resprout broker`. Its standard input is a pipe for orders (see `orders`): when the parent is
gone, however it went, the pipe ends and the child stops. Its standard output announces the address (see `orders`);
what it writes to standard error is kept, as far as it explains a sudden end. A broker that retires begins its next life
in the same process, which goes on being supervised.
"""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Sequence

from resprout.core.errors import PeerError, ResproutError, UsageError
from resprout.net.address import Address, parse_address
from resprout.net.child import START_SECONDS_MAX, STOP_SECONDS_MAX, BrokerPlan, Child, ProcessError, lines_of
from resprout.net.orders import Announcement, BrokerOrder, SaidNote, order_line, read_said


class BrokerProcess(Child):
    """Start it, wait for it, stop it. Every signal goes to its pid and to nothing else.

    `on_note` hears what the broker has for a trace, `on_line` what it writes for people, `on_end` that it is gone.
    """

    def __init__(
        self,
        plan: BrokerPlan,
        *,
        on_note: Callable[["BrokerProcess", SaidNote], None] | None = None,
        on_line: Callable[["BrokerProcess", str], None] | None = None,
        on_end: Callable[["BrokerProcess"], None] | None = None,
    ) -> None:
        super().__init__(f"broker {plan.name}")
        self.plan = plan
        self.name = plan.name
        self._on_note = on_note
        self._on_line = on_line
        self._on_end = on_end
        self._announcement: Announcement | None = None
        self._life: asyncio.Task[int] | None = None

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def address(self) -> Address:
        """Where to connect."""
        if self._announcement is None:
            raise ProcessError(f"broker {self.name} does not listen")
        return parse_address(self._announcement.address)

    @property
    def place(self) -> Address:
        """Where it listens, or will: one that is being started again comes back where it was."""
        return self.address if self._announcement is not None else self.plan.listen

    @property
    def incarnation(self) -> int:
        """Of its latest life."""
        if self._announcement is None:
            raise ProcessError(f"broker {self.name} does not listen")
        return self._announcement.incarnation

    @property
    def listening(self) -> bool:
        """It was started, has announced its address, and runs."""
        return self._announcement is not None and self.running

    # -- start and end -------------------------------------------------------------------------------------------------

    async def start(self, timeout_s: float = START_SECONDS_MAX, orders: Sequence[BrokerOrder] = ()) -> Address:
        """Returns when the broker listens; it obeys the orders before that. UsageError when it refuses what the plan
        says, ProcessError when it fails otherwise; then no process is left."""
        process = await self._spawn(self.plan.command())
        for order in orders:
            self.order(order)
        announced: asyncio.Future[Announcement] = asyncio.get_running_loop().create_future()
        self._life = asyncio.create_task(self._live(process, announced), name=f"broker {self.name}")
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.wait((announced, self._life), return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            await self.stop(0)
            raise ProcessError(f"broker {self.name} did not listen within {timeout_s:g} s") from None
        except BaseException:
            await self.stop(0)
            raise
        if not announced.done():
            raise self._refusal()
        return self.address

    async def wait(self) -> int:
        """Until it has ended; its status."""
        assert self._life is not None, "a broker process is started first"
        return await asyncio.shield(self._life)

    async def stop(self, grace_s: float = STOP_SECONDS_MAX) -> None:
        """Ask it to stop, wait, and kill it when it has not stopped by then. Nothing of it is left afterwards."""
        if self._life is None:
            return
        if grace_s > 0:
            self.end()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.wait(), grace_s)
        self.kill()
        await self.wait()

    # -- signals -------------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Let it say goodbye and go; wakes it for that when it is frozen. It hands over nothing."""
        self.deliberate = True
        process = self._started()
        assert process.stdin is not None
        process.stdin.close()
        if self.frozen:
            self.unfreeze()

    def leave(self) -> None:
        """Let it leave the network in good order; the process ends when it has."""
        self.deliberate = True
        self._signal(signal.SIGTERM)

    # -- orders --------------------------------------------------------------------------------------------------------

    def order(self, order: BrokerOrder) -> None:
        """A frozen one obeys when it wakes up."""
        if self.running:
            stdin = self._started().stdin
            assert stdin is not None
            with contextlib.suppress(OSError, RuntimeError):  # it is just ending, which `on_end` tells
                stdin.write(order_line(order))

    # -- listening to it -----------------------------------------------------------------------------------------------

    async def _live(self, process: asyncio.subprocess.Process, announced: "asyncio.Future[Announcement]") -> int:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        await asyncio.gather(self._hear_out(process.stdout, announced), self._hear_err(process.stderr))
        status = await process.wait()
        process.stdin.close()
        if self._on_end is not None:
            self._on_end(self)
        return status

    async def _hear_out(self, out: asyncio.StreamReader, announced: "asyncio.Future[Announcement]") -> None:
        async for line in lines_of(out):
            try:
                said = read_said(line)
            except PeerError as error:
                self._last_words.append(str(error))
                self._signal(signal.SIGKILL)
                continue
            if isinstance(said, Announcement):
                self._announcement = said
                if not announced.done():
                    announced.set_result(said)
            elif self._on_note is not None:
                self._on_note(self, said)

    def _said(self, text: str) -> None:
        if self._on_line is not None:
            self._on_line(self, text)

    def _refusal(self) -> ResproutError:
        if self.status == 2 and self._last_words:
            return UsageError(self._last_words[-1].removeprefix("resprout: "))
        return ProcessError(f"{self.epitaph} (before it listened)")
