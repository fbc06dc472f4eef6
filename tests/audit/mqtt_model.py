"""Traces of MQTT sessions as a correct system leaves them, and ways to spoil them."""

import random

from resprout.trace.schema import Row
from tests.audit.spoiling import Rows, change, mutation, pick, places

CLIENTS = ("m0", "m1", "m2")
TOPIC = "t"


def mqtt_trace(seed: int) -> list[Row]:
    """Clients with QoS 1 or 2 publish, are handed everything, lose their connections and crash."""
    rng = random.Random(seed)
    rows: list[Row] = []
    life = dict.fromkeys(CLIENTS, 1)
    qos = {name: rng.choice(("1", "2")) for name in CLIENTS}
    seqs: dict[tuple[str, int], int] = {}

    def add(node: str, kind: str, **columns: object) -> None:
        rows.append(Row(time_us=len(rows), node=node, kind=kind, **columns))  # type: ignore[arg-type]

    def connect(name: str, session: str) -> None:
        durable = {"durable": f"mqtt.{name}.{life[name]}.{TOPIC}"}
        add(name, "mqtt_connected", attributes={"session": session})
        add(name, "consume", filter=TOPIC, attributes=durable)
        add(name, "consuming", filter=TOPIC, attributes=durable)

    for name in CLIENTS:
        connect(name, "new")
    for _ in range(40):
        name = rng.choice(CLIENTS)
        what = rng.random()
        if what < 0.15:
            add(name, "consume_over", attributes={"durable": f"mqtt.{name}.{life[name]}.{TOPIC}"})
            connect(name, "present")
        elif what < 0.25:
            add(name, "crash")
            add(name, "recover")
            life[name] += 1
            connect(name, "new")
        else:
            seq = seqs[name, life[name]] = seqs.get((name, life[name]), 0) + 1
            id = {"publisher": name, "incarnation": life[name], "stream": "ordered", "seq": seq}
            columns = {**id, "topic": TOPIC, "guarantee": "causal", "keys": ()}
            add(name, "publish", **columns)
            add(name, "receipt", receipt="safe", **id)
            for other in CLIENTS:
                durable = {"durable": f"mqtt.{other}.{life[other]}.{TOPIC}"}
                add(other, "handed", attributes={**durable, "qos": qos[other]}, position=0, **columns)
                add(other, "acknowledged", attributes=durable, **id)
    add("world", "quiescent")
    return rows


def _of_qos_2(rows: Rows) -> list[int]:
    return [i for i in places(rows, "handed") if (rows[i].attributes or {}).get("qos") == "2"]


@mutation("mqtt_twice")
def hand_a_message_with_qos_2_out_twice(rows: Rows, rng: random.Random) -> Rows | None:
    i = pick(rng, _of_qos_2(rows))
    if i is None:
        return None
    again = change(rows[i], attributes={**(rows[i].attributes or {}), "redelivered": "yes"})
    j = rng.randint(i + 1, len(rows) - 1)
    return [*rows[:j], change(again, time_us=rows[j].time_us), *rows[j:]]


@mutation("mqtt_session")
def forget_a_session(rows: Rows, rng: random.Random) -> Rows | None:
    found = [i for i in places(rows, "mqtt_connected") if (rows[i].attributes or {})["session"] == "present"]
    i = pick(rng, found)
    return None if i is None else [*rows[:i], change(rows[i], attributes={"session": "new"}), *rows[i + 1 :]]
