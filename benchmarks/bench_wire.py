"""The codec, next to msgspec alone on Structs that carry the same columns without names, checks or hooks."""

import argparse
from collections.abc import Callable
from typing import Any

import msgspec

from benchmarks.measure import Measure, interleaved
from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.guarantee import Guarantee
from resprout.edge.messages import CLIENT_MESSAGES, Publish
from resprout.links.frames import Data, Goodbye, Hello, SessionWelcome
from resprout.wire.bundles import check_columns
from resprout.wire.codec import Codec

PAYLOAD = b"x" * 32
CODEC = Codec((Hello, SessionWelcome, Data, Goodbye), CLIENT_MESSAGES)


class PlainBundle(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The fields of a bundle, for msgspec to handle by itself."""

    publisher: str
    incarnation: int
    first: int
    count: int
    stamp: int
    topic: str
    keys: tuple[str, ...]
    guarantee: Guarantee
    attributes: bytes
    payloads: bytes


class PlainPublish(msgspec.Struct, frozen=True, tag=16, array_like=True, gc=False):
    bundle: PlainBundle


def run(quick: bool = False) -> list[Measure]:
    rounds, messages = (3, 4_000) if quick else (9, 100_000)
    measures: list[Measure] = []
    for count, bundles in ((1, 64), (256, 16)):
        measures += _frames(count, bundles, rounds, max(1, messages // (count * bundles)))
    return [*measures, _columns(rounds, messages)]


def _frames(count: int, bundles: int, rounds: int, repeats: int) -> list[Measure]:
    """Data frames of `bundles` bundles with `count` messages each; names are known after the first frame."""
    frame = Data(1, 0, 1 << 20, tuple(Publish(_bundle(i, count)) for i in range(bundles)))
    plain = Data(1, 0, 1 << 20, tuple(PlainPublish(_plain(publish.bundle)) for publish in frame.messages))
    encoder, decoder = CODEC.encoder(), CODEC.decoder()
    decoder.decode(encoder.encode(frame))
    body = encoder.encode(frame)
    assert decoder.decode(body) == frame
    plain_encode = msgspec.msgpack.Encoder().encode
    plain_decode = msgspec.msgpack.Decoder(Data[PlainPublish]).decode
    plain_body = plain_encode(plain)
    units = count * bundles
    encode, alone_encode, decode, alone_decode = interleaved(
        rounds,
        _repeat(encoder.encode, frame, repeats, units),
        _repeat(plain_encode, plain, repeats, units),
        _repeat(decoder.decode, body, repeats, units),
        _repeat(plain_decode, plain_body, repeats, units),
    )
    what = f"{bundles} bundles of {count} x {len(PAYLOAD)} B"
    return [
        Measure(f"wire encode, {what}", encode, "messages/s", "msgspec alone", alone_encode),
        Measure(f"wire decode, {what}", decode, "messages/s", "msgspec alone", alone_decode),
    ]


def _columns(rounds: int, messages: int) -> Measure:
    """The check that a bundle from a client undergoes, next to unpacking the same column."""
    count = 300
    bundle = _bundle(0, count)
    unpack = msgspec.msgpack.Decoder(list[bytes]).decode
    repeats = max(1, messages // count)
    checked, unpacked = interleaved(
        rounds,
        _repeat(check_columns, bundle, repeats, count),
        _repeat(unpack, bundle.payloads, repeats, count),
    )
    return Measure(
        f"check of a bundle's columns, {count} x {len(PAYLOAD)} B", checked, "messages/s", "unpacking them", unpacked,
        goal="about 30 ns a message",
    )  # fmt: skip


def _bundle(number: int, count: int) -> Bundle:
    return Bundle(
        f"client-{number}", 1, 1_000_000 + number * count, count, 5_000_000 + number, f"bank/{number % 8}", (),
        Guarantee.CAUSAL, b"", pack_payloads([PAYLOAD] * count),
    )  # fmt: skip


def _plain(bundle: Bundle) -> PlainBundle:
    return PlainBundle(
        bundle.publisher, bundle.incarnation, bundle.first, bundle.count, bundle.stamp, bundle.topic, bundle.keys,
        bundle.guarantee, bundle.attributes, bundle.payloads,
    )  # fmt: skip


def _repeat(work: Callable[[Any], Any], argument: Any, repeats: int, units: int) -> Callable[[], int]:
    def repeated() -> int:
        for _ in range(repeats):
            work(argument)
        return repeats * units

    return repeated


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    for measure in run(parser.parse_args().quick):
        print(f"{measure.name}: {measure.value:,.0f} {measure.unit}, {measure.ratio:.2f} of {measure.yardstick}")
