"""A work queue: three worker processes share the jobs, one of them is killed, and every job is done.

python examples/work_queue.py
"""

import asyncio
import sys

import resprout

JOBS = 60
QUICK = {"heartbeat_us": 100_000, "lease_us": 1_000_000}  # a dead worker is noticed after six heartbeats


async def worker(address: str, name: str) -> None:
    """A job is acknowledged when the next one is asked for: its result is safe by then."""
    async with resprout.connect(address, name=name) as client:
        inbox = await client.subscribe("jobs/#", group="workers", window=5)
        print("ready", flush=True)
        async for job in inbox:
            await asyncio.sleep(0.01)  # something that takes a while
            result = await client.publish("results", job.payload, attributes={"again": job.redelivered})
            await result.safe()


async def start_worker(address: str, number: int) -> asyncio.subprocess.Process:
    words = [sys.executable, __file__, address, f"worker-{number}"]
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    await process.stdout.readline()
    return process


async def main() -> None:
    async with resprout.local(brokers=3, options=QUICK) as network, network.connect("boss", broker=1) as boss:
        results = await boss.subscribe("results")
        workers = [await start_worker(network.addresses[number], number) for number in range(3)]
        for number in range(JOBS):
            await boss.publish("jobs/eu", b"%d" % number)
        done: set[int] = set()
        again = 0
        while len(done) < JOBS:
            result = await results.next()
            done.add(int(result.payload))
            again += result.attributes["again"] is True
            if len(done) == JOBS // 4 and workers[0].returncode is None:
                workers[0].kill()
                await workers[0].wait()
        for process in workers[1:]:
            process.terminate()
            await process.wait()
    print(f"{len(done)} of {JOBS} jobs are done")
    unfinished = "the other workers did the unfinished jobs of the killed one"
    print(unfinished if again else "the killed worker left no job unfinished")


if __name__ == "__main__":
    asyncio.run(worker(*sys.argv[1:]) if len(sys.argv) > 1 else main())
