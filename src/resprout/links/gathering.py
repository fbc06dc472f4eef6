"""Links on which something was sent that may wait for company, and when that leaves after all.

A broker passes on what is told to everybody, and where many have something to tell, it hears of many such things in one
moment, from all sides. A frame for each costs far more than what it says. So they stand in the outbox of the session
until whatever comes at the same moment has been heard (`Departure.TURN`), or for as long as an acknowledgement may wait
(`Departure.COMPANY`). Whatever leaves on the session meanwhile takes them along, so nothing is ever overtaken: to the
peer it looks like a link that took a moment longer.
"""

from resprout.core.contract import Departure, Effect, SetTimer, Timer
from resprout.links.link import LinkSession
from resprout.links.timers import CompanyOver, TurnOver

_TURN_OVER = TurnOver()
_COMPANY_OVER = CompanyOver()


class Gathering:
    def __init__(self, company_us: int) -> None:
        self._company_us = company_us
        self._turn: list[LinkSession] = []
        self._company: list[LinkSession] = []

    def put(self, link: LinkSession, leaves: Departure, now_us: int, out: list[Effect]) -> None:
        """Something was sent on this link, and nothing that leaves with the step."""
        if leaves is Departure.TURN:
            if not link.leaves_with_turn:
                link.leaves_with_turn = True
                if not self._turn:
                    out.append(SetTimer(_TURN_OVER, now_us))
                self._turn.append(link)
        elif not link.keeps_company:
            link.keeps_company = True
            if not self._company:
                out.append(SetTimer(_COMPANY_OVER, now_us + self._company_us))
            self._company.append(link)

    def over(self, timer: Timer) -> list[LinkSession]:
        """The links on which something leaves now, unless it has left with something else."""
        if isinstance(timer, TurnOver):
            links, self._turn = self._turn, []
            for link in links:
                link.leaves_with_turn = False
        else:
            links, self._company = self._company, []
            for link in links:
                link.keeps_company = False
        return [link for link in links if link.shipped != link.sent]
