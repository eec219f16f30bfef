"""The parts of the fan-out benchmark: what is counted, what is reported, and where time is said to go."""

from __future__ import annotations

import asyncio
import time

import pytest

from bench.fanout.result import EVENT_BYTES, PublisherReport, SubscriberReport, summarise
from bench.fanout.where import ELSEWHERE, layer_of, sampled, shares
from bench.fanout.work import Tally, Work, new_event
from pubsub.event import pack_data


def test_a_result_adds_up_its_processes() -> None:
    publisher = PublisherReport(100, 10.0, 0.004, 30_000)
    subscribers = [
        SubscriberReport(100, 10.1, 12.0, 0.008, 2_000, 150, (0.001,)),
        SubscriberReport(80, 10.1, 11.0, 0.006, 2_000, 120, (0.003,)),
    ]
    result = summarise("x", (publisher, subscribers), subscribers)
    assert result.events_per_second == 50
    assert result.deliveries_per_second == 90
    assert result.delivered_part == 0.9
    assert result.cpu_us_per_delivery == pytest.approx(100)
    assert result.copies_per_delivery == 1.5
    assert result.bytes_sent_per_byte_delivered == pytest.approx(34_000 / (180 * EVENT_BYTES))
    assert (result.latency_p50_us, result.latency_p99_us) == (3000, 3000)


def test_a_subscriber_gives_up_after_a_silence_and_not_before() -> None:
    async def main() -> None:
        tally = Tally(Work(10, patience=0.2))

        async def receive() -> None:
            for _ in range(4):
                await asyncio.sleep(0.1)
                tally.add(new_event())
            await asyncio.Event().wait()

        await tally.kept_up(receive())
        assert tally.received == 4
        assert not tally.is_complete
        assert not tally.latencies

    asyncio.run(main())


def test_samples_are_counted_by_layer() -> None:
    samples: dict[str, int] = {}
    end = time.process_time() + 0.1
    with sampled(samples):
        while time.process_time() < end:
            pack_data([[[1, 2, 3]]] * 100)
    assert samples.get("encoding", 0) > samples.get("gossip", 0)
    assert layer_of(None) == ELSEWHERE


def test_shares_are_of_everything_and_the_largest_comes_first() -> None:
    assert shares({"gossip": 1, "encoding": 2}, {"encoding": 1}) == {
        "encoding": 0.75,
        "gossip": 0.25,
    }
    assert shares() == {}
