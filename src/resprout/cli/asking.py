"""What the commands have in common that ask brokers how they are."""

import secrets
from typing import Final

from resprout.cli.addresses import address_of_peer
from resprout.cli.server import Access, read_login_file
from resprout.client.connect import read_keyring
from resprout.core.errors import UsageError
from resprout.core.names import check_name
from resprout.net.account.survey import Asker, survey
from resprout.net.account.values import BrokerAccount, TreeSurvey
from resprout.net.discover import UnreachableError
from resprout.net.identity.proofs import LoginSecret
from resprout.net.identity.secret import read_login

BITE: Final = 1024


class AskingCommand:
    """Asks in the name of whoever runs the command."""

    def __init__(self, access: Access) -> None:
        self._addresses = [address_of_peer(one.strip()) for one in access.server.split(",")]
        login = read_login_file(access.login)
        known = LoginSecret(*read_login(login)) if login is not None else None
        kind = f"{known.name}." if known is not None else "operator-"
        name = check_name(access.name or f"{kind}{secrets.token_hex(6)}", "client name")
        self.asker = Asker(name, "client", read_keyring(access.tls, access.name), known)

    async def first(self) -> BrokerAccount:
        """Of the first address where somebody tells; UsageError when nobody does."""
        failures = []
        for address in self._addresses:
            try:
                return await self.asker.account(address)
            except UnreachableError as error:
                failures.append(str(error))
        raise UsageError("; ".join(failures))

    async def survey(self) -> TreeSurvey:
        return await survey(self.asker, await self.first())


def size(count: int) -> str:
    """Of so many bytes, short."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB"):
        if amount < BITE:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= BITE
    return f"{amount:.1f} GiB"


def counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
