"""A program without `async`: threads that publish and wait, and a loop that reads.

resprout broker --name b0 --listen localhost:7450      # in another terminal
python examples/blocking.py localhost:7450
"""

import sys
import threading

import resprout


def publish(client: resprout.sync.Client, till: int) -> None:
    for number in range(3):
        client.publish(f"tills/{till}", f"sale {number}".encode(), keys=[f"till-{till}"]).safe(timeout=10)


def main(address: str) -> None:
    with resprout.sync.connect(address, name="office") as office, resprout.sync.connect(address) as shop:
        inbox = office.subscribe("tills/+")
        tills = [threading.Thread(target=publish, args=(shop, till)) for till in range(2)]
        for till in tills:
            till.start()
        for _ in range(6):
            message = inbox.next(timeout=10)
            print(f"{message.topic}: {message.payload.decode()}")
        for till in tills:
            till.join()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:2] or ["localhost:7450"])
    except resprout.ConnectError as error:
        sys.exit(f"no broker: {error}")
