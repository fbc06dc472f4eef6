"""A bank whose balances Spark computes from the live stream, while brokers are killed and the query is restarted.

pip install 'resprout[spark]'
python examples/bank_on_spark.py

Four brokers and a tap, which keeps events, are processes of their own. Three tellers publish deposits, withdrawals and
transfers; two replicas subscribe to them and keep the balances. Spark reads the same stream at the tap, sums it up, and
publishes the balances after every batch, back into the network. Meanwhile two brokers are killed, and the query is
stopped and started again from its checkpoint. In the end, replicas and Spark must agree on every account.
"""

import contextlib
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import resprout
import resprout.spark
from resprout.pipeline.errors import NoSparkError
from resprout.pipeline.session import session

ACCOUNTS = 20
OPERATIONS = 400  # of each teller
PATIENCE_S = 180


@contextlib.contextmanager
def broker(name: str, *words: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A process and its address; when it keeps events, they are kept from here on."""
    command = [sys.executable, "-m", "resprout", "broker", "--name", name, "--listen", "127.0.0.1:0", "--json", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    address, keeps = "", "--keep" in words
    try:
        while not address or keeps:
            said = json.loads(process.stdout.readline())
            address = said.get("address", address)
            keeps = keeps and said.get("kind") != "events"
        yield process, address
    finally:
        process.kill()
        process.wait()


class Teller(threading.Thread):
    def __init__(self, name: str, servers: str, killed: threading.Event) -> None:
        """`killed`: brokers were killed, and the last quarter of the operations may follow."""
        super().__init__(daemon=True)
        self._called, self._servers, self._killed = name, servers, killed
        self._rng = random.Random(name)
        self.published_s: list[float] = []
        """When each operation was published."""

    def run(self) -> None:
        with resprout.sync.connect(self._servers, name=self._called, timeout=PATIENCE_S) as client:
            for number in range(OPERATIONS):
                if number >= OPERATIONS * 3 // 4:
                    self._killed.wait(PATIENCE_S)
                one, other = (f"acc-{number}" for number in self._rng.sample(range(ACCOUNTS), 2))
                amount = self._rng.randint(1, 500)
                kind = self._rng.choice(("deposit", "withdraw", "transfer"))
                moves = {
                    "deposit": {one: amount},
                    "withdraw": {one: -amount},
                    "transfer": {one: -amount, other: amount},
                }
                receipt = client.publish(
                    "bank/pt", json.dumps(moves[kind]).encode(), keys=sorted(moves[kind]),
                    guarantee="total" if kind == "transfer" else "causal", attributes={"kind": kind, "amount": amount},
                )  # fmt: skip
                self.published_s.append(time.monotonic())
                time.sleep(0.02)
            receipt.delivered(timeout=PATIENCE_S)


class Replica(threading.Thread):
    """Keeps the books as the messages come."""

    def __init__(self, name: str, servers: str) -> None:
        super().__init__(daemon=True)
        self.balances: Counter[str] = Counter()
        self.operations = 0
        self._client = resprout.sync.connect(servers, name=name, timeout=PATIENCE_S)
        self._inbox = self._client.subscribe("bank/+")

    def run(self) -> None:
        while self.operations < 3 * OPERATIONS:
            self.balances.update(json.loads(self._inbox.next(timeout=PATIENCE_S).payload))
            self.operations += 1
        self._client.close()


def balances_query(spark: Any, tap: str, servers: str, checkpoint: Path) -> Any:
    """Sums up what moved, and publishes the balances after every batch; `moves` tells which one is the latest."""
    operations = (
        spark.readStream.format("resprout").option("servers", tap).option("subscribe", "bank/+")
        .option("startingOffsets", "earliest").option("minPartitions", 2).load()
    )  # fmt: skip
    moved = operations.selectExpr(
        "explode(from_json(cast(value as string), 'map<string,bigint>')) as (account, amount)"
    )
    balances = moved.groupBy("account").agg({"amount": "sum", "*": "count"}).toDF("account", "balance", "moves")
    messages = balances.selectExpr("account as key", "to_json(struct(*)) as value", "'balances/pt' as topic")
    return (
        messages.writeStream.format("resprout").option("servers", servers).outputMode("complete")
        .option("checkpointLocation", str(checkpoint)).start()
    )  # fmt: skip


def latest_balances(spark: Any, tap: str) -> dict[str, int]:
    told = spark.read.format("resprout").option("servers", tap).option("subscribe", "balances/+").load()
    rows = told.selectExpr("from_json(cast(value as string), 'account string, balance bigint, moves bigint') row")
    each = rows.selectExpr("row.account", "struct(row.moves, row.balance) as told")
    latest = each.groupBy("account").agg({"told": "max"}).toDF("account", "told")
    return {row["account"]: row["told"]["balance"] for row in latest.collect()}


def main() -> int:
    say("starting four brokers and a tap")
    with contextlib.ExitStack() as processes:
        folder = Path(processes.enter_context(tempfile.TemporaryDirectory()))
        _, b0 = processes.enter_context(broker("b0"))
        (b1, a1), (b2, a2), (_, a3) = (processes.enter_context(broker(f"b{n}", "--join", b0)) for n in (1, 2, 3))
        words = ("--join", b0, "--data", str(folder / "tap"), "--keep", "bank/#", "--keep", "balances/#")
        _, tap = processes.enter_context(broker("tap", *words))
        say("starting Spark")
        spark = processes.enter_context(session())
        resprout.spark.register(spark)
        replicas = [Replica(f"replica-{n}", servers) for n, servers in enumerate((f"{a1},{b0}", f"{a3},{b0}"))]
        killed = threading.Event()
        tellers = [
            Teller(f"teller-{n}", servers, killed)
            for n, servers in enumerate((f"{a1},{b0}", f"{a2},{b0}", f"{a3},{b0}"))
        ]
        for thread in (*replicas, *tellers):
            thread.start()
        query = balances_query(spark, tap, f"{a2},{a3},{b0}", folder / "checkpoint")
        killed_s: list[float] = []
        for number, (victim, name) in enumerate(((b1, "b1"), (b2, "b2")), 1):
            await_progress(query, replicas[1], number * OPERATIONS)
            victim.kill()
            killed_s.append(time.monotonic())
            say(f"{replicas[1].operations} operations; killed the broker {name}, which serves a teller")
            if number == 1:
                query.stop()
                query = balances_query(spark, tap, f"{a2},{a3},{b0}", folder / "checkpoint")
                say("stopped the query, and started it again from its checkpoint")
        killed.set()
        for thread in (*tellers, *replicas):
            thread.join(PATIENCE_S)
        query.processAllAvailable()
        query.stop()
        published_s = [moment for teller in tellers for moment in teller.published_s]
        if not any(min(published_s) < moment < max(published_s) for moment in killed_s):
            say("no broker was killed between the first and the last publication: this run proves nothing")
            return 1
        return compare([dict(replica.balances) for replica in replicas], latest_balances(spark, tap))


def await_progress(query: Any, replica: Replica, count: int) -> None:
    """So many operations, and a batch that Spark has done since it was started."""
    deadline = time.monotonic() + PATIENCE_S
    while (replica.operations < count or query.lastProgress is None) and time.monotonic() < deadline:
        time.sleep(0.05)


def compare(replicas: list[dict[str, int]], spark: dict[str, int]) -> int:
    for account in sorted(spark, key=lambda name: int(name.partition("-")[2]))[:5]:
        held = ", ".join(f"{each[account]:>6}" for each in replicas)
        say(f"{account}: {spark[account]:>6} on Spark, {held} at the replicas")
    if any(each != spark for each in replicas):
        say("Spark and the replicas differ")
        return 1
    say(f"{3 * OPERATIONS} operations, {len(spark)} accounts: Spark and both replicas agree on every balance")
    return 0


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except NoSparkError as error:
        sys.exit(str(error))
