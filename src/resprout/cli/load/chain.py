"""Our brokers in a row, each the child of the one before, or in a tree; in processes of their own."""

from collections.abc import Mapping, Sequence

from resprout.net.tree import LocalTree
from resprout.scenario.model import BrokerSpec, OptionValue, Scenario


class OurChain:
    """`Brokers` for a team, with the settings that they have by default, or with others. Each has up to `children` of
    its own; with one they are in a row."""

    def __init__(self, length: int, children: int = 1, options: Mapping[str, OptionValue] | None = None) -> None:
        brokers = tuple(BrokerSpec(f"b{at}", f"b{(at - 1) // children}" if at else None) for at in range(length))
        self._tree = LocalTree(Scenario(name="a chain", brokers=brokers, options=dict(options or {})))
        self.first = self.last = ""
        self.pids: Sequence[int] = ()

    async def start(self) -> None:
        await self._tree.start()
        processes = list(self._tree.processes)
        self.first, self.last = str(processes[0].address), str(processes[-1].address)
        self.pids = [process.pid for process in processes]

    async def stop(self) -> None:
        await self._tree.stop()
