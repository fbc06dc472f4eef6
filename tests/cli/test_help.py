"""Every example in the help of a command works in an empty folder, as after an installation."""

import re
from pathlib import Path

import pytest

from resprout.cli.main import VERBS
from tests.cli.processes import resprout
from tests.docs.terminal import terminal
from tests.soak import SOAKING

TREE = """
$ resprout secret --network network.key
$ resprout up --network-key network.key & UP=$!
b2      b0      127.0.0.1:7452  ...
$ resprout tap --join localhost:7450 --network-key network.key --data tap --listen localhost:7455 'bank/#' & TAP=$!
tap listens on ...:7455
...events...
$ resprout sub 'news/#' > news.log & SUB=$!
$ resprout sub bank/+ --where "amount > 100 and currency = 'EUR'" --json > rich.log & RICH=$!
$ resprout sub logs/app --raw --count 100 > sample.log & SAMPLE=$!
$ resprout sub 'orders/#' --durable billing & BILLING=$!
$ resprout sub 'jobs/#' --group workers --max-deliver 5 --ack-wait 30 & WORKERS=$!
$ resprout sub 'orders/#' --durable archive --when-full spill & ARCHIVE=$!
$ resprout reply 'price/+' '4.20' & PRICE=$!
$ resprout reply 'shout/#' --command 'tr a-z A-Z' & SHOUT=$!
$ until resprout who price/bread && resprout who logs/app && resprout who shout/a; do sleep 0.1; done
$ seq 1 100 | resprout pub logs/app -
$ wait $SAMPLE && wc -l < sample.log
100
$ resprout pub news/today 'it rains'
$ resprout pub bank/pt 'deposit 120' --key acc-7 --attr amount=120 --wait safe
$ resprout request price/bread '2 loaves'
4.20
$ resprout request price/bread --timeout 1 --json
{...4.20...}
$ until resprout read 'bank/#' --server localhost:7455 | grep 120; do sleep 0.1; done
$ resprout read 'bank/#' --server localhost:7455 --from 2026-03-01T12:00:00Z -n 10 --json
{...deposit 120...}
$ resprout sub 'bank/#' --replay-from earliest --server localhost:7455 & REPLAY=$!
bank/pt deposit 120
$ resprout pub news/today 'it rains' --verbose
...
$ resprout pub state/lamp on --retain
$ resprout sub 'state/#' --retained & STATE=$!
state/lamp on
$ resprout kv put config limits/upload 10
...
$ resprout kv get config limits/upload
10
$ resprout kv watch config & WATCH=$!
...limits/upload 10
$ resprout kv update config limits/upload 20 --revision 7
$ echo $?
1
$ until resprout subscriptions | grep '^workers'; do sleep 0.1; done
$ kill $WORKERS; wait $WORKERS; true
$ resprout pub jobs/1 mend
$ until resprout peek workers -n 3 | grep mend; do sleep 0.1; done
$ resprout dead-letters workers
no message waits
$ resprout dead-letters workers --replay
0 dead letters replayed
$ resprout purge workers
workers is empty
$ resprout top & TOP=$!
$ resprout top --count 1 | tail -n +2 | sort -k4
$ resprout who bank/accounts/7
$ resprout trace teller.1234/ordered:7
$ echo $?
1
$ kill $REPLAY $TOP $BILLING $ARCHIVE $STATE $WATCH $SUB $RICH $PRICE $SHOUT
$ resprout end-subscription billing
$ resprout freeze b1
$ resprout resume b1
$ resprout crash b1
$ resprout restart b1
$ until resprout status; do sleep 0.2; done
$ resprout crash b2
$ resprout crash b1
$ until resprout forget b1 b2; do sleep 0.2; done
$ kill $TAP $UP; wait $TAP $UP; true
"""
"""The commands that talk to brokers without TLS. The publication that `trace` looks for is made up."""

BROKERS = """
$ resprout broker --name b0 --listen localhost:7450 & B0=$!
b0 listens on ...
$ resprout broker --name b1 --listen localhost:7451 --parent localhost:7450 & B1=$!
b1 listens on ...
$ resprout broker --name b2 --listen localhost:7452 --join localhost:7450 --join localhost:7451 & B2=$!
b2 listens on ...
$ kill $B1; wait $B1
$ resprout broker --config b1.toml & B1=$!
b1: joined...
$ kill $B2 $B1 $B0; wait
"""

LOG = """
$ resprout broker --name b0 --data b0 --log 'bank=bank/#@b0' & B0=$!
b0 listens on ...
b0: log fed: bank...
$ seq 1 60 | resprout pub bank/pt - --wait delivered
$ until resprout read 'bank/#' --log bank | grep 'pt 60'; do sleep 0.1; done
$ resprout log list
...bank...
$ resprout log describe bank
...bank...
$ resprout read 'bank/#' --log bank --from log.bank@41
log.bank@59 bank/pt 60
$ resprout sub 'bank/#' --log bank --replay-from log.bank@41 & SUB=$!
bank/pt 60
$ kill $SUB $B0; wait $B0
$ resprout up --data created & UP=$!
b2      b0      127.0.0.1:7452  ...
$ until resprout log create bank 'bank/#'; do sleep 0.1; done
log bank keeps bank/# at b0, b1, b2
$ kill $UP; wait $UP
"""

SECURED = """
$ resprout certificates certs --names b0,b1,b2 --client teller --operator admin
$ resprout broker --name b0 --listen localhost:7450 --tls certs & B0=$!
b0 listens on ...
$ resprout sub 'bank/#' --tls certs --name teller & SUB=$!
$ kill $SUB
$ resprout status --tls certs --name admin
...b0...
$ kill $B0; wait $B0
$ resprout secret teller --out teller.login >> rules.toml
$ sed -i -E 's,^(publish|subscribe) = .*,\\1 = ["#"],' rules.toml
$ echo 'observe = true' >> rules.toml
$ resprout broker --name b0 --listen localhost:7450 --rules rules.toml --tls certs & B0=$!
b0 listens on ...
$ resprout status --tls certs --login teller.login
...b0...
$ kill $B0; wait $B0
$ resprout broker --name b0 --listen localhost:7450 --rules rules.toml & B0=$!
b0 listens on ...
$ resprout sub 'bank/#' --login teller.login & SUB=$!
$ kill $SUB $B0; wait $B0
"""

ALONE = """
$ resprout up & UP=$!
b2      b0      127.0.0.1:7452  ...
$ kill $UP; wait $UP
$ resprout up bank --emulate-latency & UP=$!
b7      ...
$ kill $UP; wait $UP
$ resprout sim --draw 1 --trace out/drawn
$ resprout audit out/drawn
clean...
$ resprout bench
...
$ resprout bench --brokers 3 --subscribers 8 --seconds 5
...
"""


SHORTER = {"resprout bench\n": "resprout bench --messages 2000\n", "--seconds 5": "--seconds 0.2"}
"""Both examples of `bench` load all cores for 15 s of processor time, so `make test` measures for a shorter time."""


def help_of(verb: str) -> list[str]:
    done = resprout(*verb.split(), "--help")
    assert done.returncode == 0
    return done.stdout.decode().splitlines()


def examples() -> set[str]:
    """Return the commands that the help of any verb shows."""
    lines = [line for verb in ("", *VERBS) for line in help_of(verb)]
    return {line.strip() for line in lines if re.match(r" {6}(\w+.*\| )?resprout ", line)}


def test_every_example_is_tried() -> None:
    scripts = "".join((TREE, BROKERS, LOG, SECURED, ALONE))
    assert not [example for example in examples() if example not in scripts]


@pytest.mark.parametrize(
    "script", [TREE, BROKERS, LOG, SECURED, ALONE], ids=["tree", "brokers", "log", "secured", "alone"]
)
def test_the_examples_work_in_an_empty_folder(script: str, tmp_path: Path) -> None:
    if not SOAKING:
        for example, shorter in SHORTER.items():
            script = script.replace(example, shorter)
    page = tmp_path / "page.md"
    file = [line[6:] for line in help_of("broker") if re.match(r" {6}(\w+ = |\[)", line)]
    page.write_text("```python\n# b1.toml\n" + "\n".join(file) + f"\n```\n\n```console{script}```\n")
    with terminal(tmp_path) as opened:
        assert opened.page(page) > 3
