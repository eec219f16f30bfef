"""The same seed gives the same run: in this process, in others, and whatever PYTHONHASHSEED is."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import secrets
import subprocess
import sys
import time
from pathlib import Path

import pytest

from overlay.entropy import entropy
from overlay.virtual import Network, world

from . import busy_program
from .helpers import listen

ROOT = Path(__file__).parents[3]


def in_another_process(hash_seed: int, *arguments: str) -> str:
    command = [sys.executable, "-m", busy_program.__name__, *arguments]
    environment = os.environ | {"PYTHONHASHSEED": str(hash_seed)}
    finished = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return finished.stdout.strip()


def test_a_seed_gives_one_run_in_all_processes() -> None:
    here = busy_program.run(7)
    assert here == busy_program.run(7)
    assert [in_another_process(hash_seed, "7") for hash_seed in (0, 1)] == [here, here]


@pytest.mark.sweep
@pytest.mark.parametrize("first", range(0, 40, 10))
def test_many_seeds_give_the_same_run_twice(first: int) -> None:
    for seed in range(first, first + 10):
        assert busy_program.run(seed) == busy_program.run(seed)


def test_another_seed_gives_another_run() -> None:
    assert len({busy_program.run(seed) for seed in range(4)}) == 4


def test_a_program_that_walks_a_set_of_strings_is_found_out() -> None:
    runs = [in_another_process(hash_seed, "7", "careless") for hash_seed in (0, 1, 2)]
    assert len(set(runs)) > 1


@pytest.mark.parametrize("collect_every", [500, 20_000])
def test_the_interpreter_does_not_choose_when_garbage_is_collected(
    collect_every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world, "COLLECT_EVERY", collect_every)
    thresholds = gc.get_threshold()
    runs = []
    try:
        for threshold in (10, 100, 100_000):
            gc.set_threshold(threshold)
            runs.append(busy_program.run(7))
    finally:
        gc.set_threshold(*thresholds)
    assert len(set(runs)) == 1
    assert gc.isenabled()


def draws() -> list[object]:
    return [
        random.random(),
        random.SystemRandom().random(),
        os.urandom(8),
        secrets.token_bytes(8),
        entropy().getrandbits(64),
    ]


def test_every_source_of_chance_is_seeded_during_the_run_and_given_back_after_it() -> None:
    async def main() -> list[object]:
        return draws()

    random.seed(5)
    expected = [random.random(), random.random()]
    random.seed(5)
    urandom = os.urandom
    first = random.random()
    one, same, other = (Network(seed).run(main()) for seed in (1, 1, 2))
    assert [first, random.random()] == expected
    assert os.urandom is urandom
    assert one == same
    assert all(a != b for a, b in zip(one, other, strict=True))
    assert len({str(draw) for draw in one}) == len(one)
    assert draws() != one


def test_the_sources_are_given_back_after_a_failure_too() -> None:
    async def main() -> None:
        raise ValueError("broken")

    sources = os.urandom, time.time, time.monotonic, random.getstate()
    with pytest.raises(ValueError, match="broken"):
        Network(seed=1).run(main())
    assert sources == (os.urandom, time.time, time.monotonic, random.getstate())


def hash_of(sizes: list[int], pause: float = 0.0, port: int = 5000, loss: float = 0.0) -> str:
    async def main() -> None:
        one, two = await listen("127.0.0.2", 4000), await listen("127.0.0.3", port)
        for size in sizes:
            one.transport.sendto(bytes(size), tuple(two.address))
            await asyncio.sleep(pause)
        await asyncio.sleep(1)

    net = Network(seed=1, loss=loss)
    net.run(main())
    return net.trace_hash


def test_the_trace_tells_apart_sizes_order_times_and_addresses() -> None:
    hashes = [
        hash_of([10, 20]),
        hash_of([20, 10]),
        hash_of([10, 20], pause=1e-9),
        hash_of([10, 20], port=5001),
        hash_of([10, 20, 1]),
        hash_of([]),
        hash_of([10, 20], loss=1.0),
        hash_of([10, 20], loss=1.0, pause=1e-9),
    ]
    assert len(set(hashes)) == len(hashes)
    assert hash_of([10, 20]) == hashes[0]


def test_the_trace_tells_apart_what_became_of_a_datagram() -> None:
    async def main(net: Network, fate: str) -> None:
        one = await listen("127.0.0.2", 4000)
        if fate != "nobody there":
            two = await listen("127.0.0.3", 4000)
        if fate == "partition":
            net.partition(["127.0.0.2"], ["127.0.0.3"])
        with net.rule(lambda packet: 0.5 if fate == "delayed" else None):
            one.transport.sendto(b"x", ("127.0.0.3", 4000))
        if fate == "crash":
            net.crash("127.0.0.3")
        elif fate == "closed":
            two.transport.close()
        await asyncio.sleep(1)

    def of(fate: str, **faults: float) -> str:
        net = Network(seed=1, **faults)  # type: ignore[arg-type]
        net.run(main(net, fate))
        return net.trace_hash

    fates = ["delivered", "nobody there", "partition", "delayed", "crash"]
    hashes = [of(fate) for fate in fates]
    hashes += [of("delivered", **{fault: 1.0}) for fault in ("loss", "duplicate", "corrupt")]
    assert len(set(hashes)) == len(hashes)
    assert of("closed") == hashes[1]
