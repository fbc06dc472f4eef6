"""Answers whoever opens a connection only to ask: who listens here, or how this node is. Then the connection ends."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from resprout.core.errors import UsageError
from resprout.net.frames import AccountTold, AskAccount, Here, Who
from resprout.net.reception import refuse

if TYPE_CHECKING:
    from resprout.net.connection import TcpConnection
    from resprout.net.host import Host


class Inquiries:
    """`latest_incarnation`: the latest life of a peer that was met here. `asked` hears who wants to know who listens
    here. `tells`: what is answered to those who ask how this node is, and may."""

    def __init__(
        self,
        host: "Host",
        latest_incarnation: Callable[[str], int],
        asked: Callable[[Who], None],
        tells: Callable[[AskAccount], bytes] | None,
    ) -> None:
        self._host = host
        self._latest_incarnation = latest_incarnation
        self._asked = asked
        self._tells = tells

    def answer(self, connection: "TcpConnection", asked: Who | AskAccount) -> None:
        """To somebody who wants nothing else."""
        if self._host.is_barred(asked.name):
            connection.abort("cut off")
        elif isinstance(asked, Who):
            self._who(connection, asked)
        else:
            self._how(connection, asked)

    def _who(self, connection: "TcpConnection", asked: Who) -> None:
        host, here = self._host, self._host.here
        met = self._latest_incarnation(asked.name)
        door = host.door
        connection.send(Here(
            here.name, here.role, here.incarnation, met, host.network, host.notices(), here.stack, door.has_rules,
            door.network_key is not None,
        ))  # fmt: skip
        connection.close("answered")
        self._asked(host.door.as_proven(asked, connection.proven))

    def _how(self, connection: "TcpConnection", asked: AskAccount) -> None:
        host = self._host
        if self._tells is None:
            refuse(connection, f"{host.here.name} tells nothing of itself")
        elif not host.reception.check_asker(connection, asked):
            try:
                connection.send(AccountTold(host.here.name, self._tells(asked)))
                connection.close("told")
            except UsageError as error:
                refuse(connection, str(error))
