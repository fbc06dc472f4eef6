"""Live: at each subscriber, the ordered publications of one client, and of one lane, come in the order of (incarnation,
seq)."""

from resprout.audit.live.memory import KeptLife
from resprout.audit.live.view import LiveView
from resprout.audit.naming import MessageId


def check_fifo(view: LiveView, life: KeptLife, id: MessageId, lane: str, position: int, time_us: int) -> None:
    publisher, incarnation, _, seq = id
    last = life.newest.get((publisher, lane))
    if last is None or (incarnation, seq) > (last[0][1], last[0][3]):
        life.newest[publisher, lane] = (id, position)
        return
    name, later = view.name(id), view.name(last[0])
    text = (
        f"{life.name} delivered {name} at {position} after {later} at {last[1]}, though {publisher} published it first"
    )
    view.tell("fifo", time_us, life.node, (name, later), text)
