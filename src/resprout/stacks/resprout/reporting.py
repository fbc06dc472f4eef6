"""When a broker sends reports to neighbours and receipts to clients: urgent ones at the end of a step, others when a
timer fires."""

from collections.abc import Mapping

from resprout.core.contract import Timer
from resprout.edge.broker.quotas import BackPressure
from resprout.edge.broker.sessions import ClientSessions
from resprout.order.entry import RecentlyAcked
from resprout.order.link import Link
from resprout.order.log import Log
from resprout.order.messages import ReportTaken, ReportTotals
from resprout.order.reports import Reports
from resprout.order.totals.levels import TotalAcks
from resprout.spread.messages import Outbound
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.speaking import Speaking
from resprout.stacks.resprout.total_delivery import TotalDelivery


class Reporting:
    """Sends what the parts of a broker have scheduled for the end of the step, or for a timer."""

    def __init__(
        self,
        life: BrokerLife,
        links: Mapping[str, Link],
        outbound: Outbound,
        recently_acked: RecentlyAcked,
        log: Log,
        sessions: ClientSessions,
        reports: Reports,
        pressure: BackPressure,
        total_acks: TotalAcks,
        speaking: Speaking,
        total_delivery: TotalDelivery,
    ) -> None:
        self._life = life
        self._links = links
        self._outbound = outbound
        self._recently_acked = recently_acked
        self._log = log
        self._sessions = sessions
        self._reports = reports
        self._pressure = pressure
        self._total_acks = total_acks
        self._speaking = speaking
        self._total_delivery = total_delivery

    def end_step(self) -> None:
        """Send everything that this step has scheduled: messages in `outbound`, receipts, reports. Called last in a
        step."""
        life, sessions, reports = self._life, self._sessions, self._reports
        if self._log.repeats.changed:
            self._log.advance_repeats()
        if self._outbound:
            self._speaking.say_all()
        if sessions.turned or sessions.ending:
            sessions.flush(life.out)
        if self._pressure.holding:
            self._pressure.release(life.out)
        if sessions.lazy_receipts and not reports.taken_soon:
            reports.receipts_soon()
        if not self._links and self._total_acks.entries:
            self._total_delivery.report()  # there is no neighbour to tell, and no timer comes: forget what is delivered
        if self._total_acks.urgent:
            self._total_delivery.report(only_done=True)
        if reports.due:
            reports.flush(life.now_us, life.out)

    def fired(self, timer: Timer) -> None:
        """Send the reports and receipts that no publisher waits for: their timer has fired."""
        if isinstance(timer, ReportTaken):
            self._sessions.flush_all(self._life.out)
        self._reports.fired(timer)
        self._total_delivery.report(only_done=not isinstance(timer, ReportTotals))

    def tick(self) -> None:
        """Once per heartbeat: reports of a lease ago have arrived, if all neighbours are heard."""
        if not any(link.silent for link in self._links.values()):
            self._recently_acked.turn(self._life.now_us, self._life.options.lease_us)
