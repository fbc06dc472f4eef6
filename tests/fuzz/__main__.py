"""`python -m tests.fuzz`: many conversations of liars with honest brokers, and what went wrong in them."""

import argparse
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor

from tests.fuzz.episode import Episode, Finding
from tests.fuzz.lies import ROLES, Role
from tests.fuzz.mqtt import fuzz_mqtt
from tests.fuzz.over_tcp import fuzz_over_tcp

LENGTH = 1000
"""Messages of one conversation. With the seed and the role, it says what happens in it."""
MEMORY_BYTES_MAX = 4 << 30
"""Address space of a worker: a step that takes more fails with MemoryError, and is found."""
RESIDENT_KIB_MAX = 1 << 20
"""Memory that a worker may take in all: an episode leaves nothing behind."""


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--messages", type=int, default=20_000, help="how many in all, in memory")
    parser.add_argument("--seed", type=int, default=1, help="of the first conversation; the next has the next")
    parser.add_argument("--role", choices=ROLES, help="of the liar; both in turn if left out")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--tcp", type=int, default=0, metavar="N", help="then so many frames to a real broker over TCP")
    parser.add_argument("--mqtt", type=int, default=0, metavar="N", help="then so many packets of MQTT clients")
    given = parser.parse_args(words)
    roles: tuple[Role, ...] = (given.role,) if given.role else ROLES
    count = -(-given.messages // (LENGTH * len(roles)))
    jobs = [(role, given.seed + number) for number in range(count) for role in roles]
    begin = time.monotonic()
    said, found = _gather(_outcomes(jobs, given.workers))
    _report(said, found, time.monotonic() - begin)
    failed = bool(found)
    if given.tcp:
        failed |= _over_tcp(given.tcp, given.seed)
    if given.mqtt:
        failed |= _over_mqtt(given.mqtt, given.seed)
    return 1 if failed else 0


def play(job: tuple[Role, int]) -> tuple[int, int, Finding | None]:
    """Messages that honest nodes were given, those that the codec refused, and what was found."""
    role, seed = job
    episode = Episode(role, seed, LENGTH)
    finding = episode.run()
    resident_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if finding is None and resident_kib > RESIDENT_KIB_MAX:
        finding = episode.found(f"the process takes {resident_kib >> 10} MiB")
    return episode.heard, episode.refused_by_the_wire, finding


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, resource.RLIM_INFINITY))


def _outcomes(jobs: list[tuple[Role, int]], workers: int) -> Iterator[tuple[int, int, Finding | None]]:
    with ProcessPoolExecutor(workers, initializer=_limit_memory) as pool:
        yield from pool.map(play, jobs, chunksize=4)


def _gather(outcomes: Iterable[tuple[int, int, Finding | None]]) -> tuple[tuple[int, int], list[Finding]]:
    heard = refused = 0
    found: list[Finding] = []
    counts: Counter[tuple[str, str]] = Counter()
    for given, by_wire, finding in outcomes:
        heard, refused = heard + given, refused + by_wire
        if finding is None:
            continue
        counts[finding.signature] += 1
        if counts[finding.signature] == 1:
            found.append(finding)
            _tell(finding)
    return (heard, refused), found


def _tell(finding: Finding) -> None:
    sys.stdout.write(
        f"FOUND, a {finding.role} with the seed {finding.seed}, after {finding.forged} messages:\n"
        f"  {finding.consequence}\n"
        f"  while handling {finding.while_handling}\n"
        + "".join(f"  said before: {line}\n" for line in finding.last_forged[-4:])
        + f"  again: python -m tests.fuzz --role {finding.role} --seed {finding.seed} --messages {LENGTH}\n"
    )
    sys.stdout.flush()


def _report(said: tuple[int, int], found: list[Finding], seconds: float) -> None:
    heard, refused = said
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = used.ru_utime + used.ru_stime
    sys.stdout.write(
        f"{heard} messages of liars were heard in {seconds:.0f} s, {heard / max(seconds, 1e-9):.0f} a second,"
        f" {heard / max(cpu_s, 1e-9):.0f} in a second of processor time;"
        f" {refused} more were refused by the codec; {len(found)} kinds of findings\n"
    )


def _over_tcp(frames: int, seed: int) -> bool:
    said, trouble = fuzz_over_tcp(frames, seed)
    sys.stdout.write(f"{said} frames over TCP: {trouble or 'nothing found'}\n")
    if trouble:
        sys.stdout.write(f"  again: python -m tests.fuzz --messages 0 --tcp {frames} --seed {seed}\n")
    return bool(trouble)


def _over_mqtt(count: int, seed: int) -> bool:
    said, trouble = fuzz_mqtt(count, seed)
    sys.stdout.write(f"{said} packets of MQTT clients: {trouble or 'nothing found'}\n")
    if trouble:
        sys.stdout.write(f"  again: python -m tests.fuzz --messages 0 --mqtt {count} --seed {seed}\n")
    return bool(trouble)


if __name__ == "__main__":
    sys.exit(main())
