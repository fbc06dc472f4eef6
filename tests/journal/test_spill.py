"""Bytes that wait on a disk: on virtual files, and on real ones without a name."""

import os
import random
from pathlib import Path

import pytest

from resprout.core.errors import StoreError
from resprout.journal.spill import SpillFiles, SpillSegments
from resprout.net.disk import UnnamedFiles
from resprout.sim.disk import VirtualFiles


@pytest.mark.parametrize("kind", ["virtual", "real"])
def test_whatever_is_put_and_forgotten_the_rest_is_there_and_room_comes_back(kind: str, tmp_path: Path) -> None:
    files: SpillFiles = VirtualFiles() if kind == "virtual" else UnnamedFiles(tmp_path)
    rng = random.Random("spill")
    store = SpillSegments(files, 64 << 10)
    there: dict[int, bytes] = {}
    refused = 0
    for _ in range(2_000):
        if there and rng.random() < 0.48:
            place = rng.choice(list(there))
            assert store.get(place) == there.pop(place)
            store.forget(place)
        else:
            content = rng.randbytes(rng.randint(0, 3_000))
            new = store.put(content)
            refused += new is None
            if new is not None:
                there[new] = content
        assert store.places == len(there) and sum(map(len, there.values())) <= store.used <= 66 << 10
    assert refused and "65536 bytes are the most" in store.trouble
    assert not list(tmp_path.iterdir()), "nothing that a killed process would leave"
    for place, content in there.items():
        assert store.get(place) == content
        store.forget(place)
    assert store.used < 2 << 10
    if isinstance(files, UnnamedFiles):
        files.close()


def test_what_is_not_what_was_put_is_refused() -> None:
    files = VirtualFiles()
    store = SpillSegments(files, 1 << 20)
    place = store.put(b"payload")
    assert place is not None
    files.spoil(files.names()[0], 3, 1)
    with pytest.raises(StoreError, match="not what is read"):
        store.get(place)


def test_after_a_write_that_was_torn_by_a_full_disk_the_next_one_goes_to_another_file() -> None:
    files = VirtualFiles()
    store = SpillSegments(files, 1 << 20)
    first = store.put(b"first")
    files.room = 3
    assert store.put(b"second") is None and store.trouble == os.strerror(28)
    files.room = None
    third = store.put(b"third")
    assert first is not None and third is not None
    assert (store.get(first), store.get(third)) == (b"first", b"third")


def test_few_that_are_needed_for_long_do_not_hold_the_room_of_all_that_came_with_them() -> None:
    store = SpillSegments(VirtualFiles(), 64 << 10)
    long = []
    for number in range(1_000):
        new = store.put(b"%04d" % number + bytes(1_000))
        assert new is not None, number
        if number % 25:
            store.forget(new)
        else:
            long.append((number, new))
    assert [int(store.get(place)[:4]) for _, place in long] == [number for number, _ in long]
