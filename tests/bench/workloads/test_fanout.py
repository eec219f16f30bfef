"""The fan-out: what is counted, what is reported, and all systems at the same
work."""

from __future__ import annotations

import asyncio

import pytest

from bench.servers import NotInstalled
from bench.workloads import fanout
from bench.workloads import systems as roles
from bench.workloads.fanout import CAMCAST, PLAIN, Outcome, Way, delay, ratios, throughput
from bench.workloads.work import Events, Published, Received, Tally, Work, age
from bench.workloads.workload import LEFT_OUT
from overlay.errors import UsageError


def test_metrics_add_up_the_processes() -> None:
    received = [
        Received(100, 10.0, 10.1, 12.0, 0.008, (0.001,), 2_000, 150),
        Received(80, 10.0, 10.1, 11.0, 0.006, (0.003,), 2_000, 120),
    ]
    outcome = Outcome(Published(100, 10.0, 11.9, 0.004, 30_000), received, 0.002, 0.5)
    found = {name: value for name, (value, _) in throughput(outcome, 256).items()}
    assert found["deliveries"] == 90
    assert found["delivered"] == 0.9
    assert found["cpu"] == pytest.approx(1e6 * 0.020 / 180)
    assert found["copies"] == 1.5
    assert found["bytes_sent"] == pytest.approx(34_000 / (180 * 256))
    assert delay(outcome) == {"p50": (2000, "us"), "p99": (pytest.approx(2980), "us")}


def test_a_subscriber_gives_up_after_a_silence_and_not_before() -> None:
    async def main() -> None:
        tally = Tally(Work(10, patience=0.2))

        async def receive() -> None:
            for _ in range(4):
                await asyncio.sleep(0.1)
                tally.add(Events(256).new())
            await asyncio.Event().wait()

        await tally.kept_up(receive())
        assert tally.received == 4
        assert not tally.is_complete
        assert not tally.latencies

    asyncio.run(main())


def test_what_goes_wrong_while_receiving_is_not_taken_for_a_loss() -> None:
    async def receive() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        asyncio.run(Tally(Work(10)).kept_up(receive()))


def test_a_tally_is_complete_with_the_last_event() -> None:
    for count in (1, 63, 64, 65, 130):
        tally = Tally(Work(count, 16))
        events = Events(16)
        for number in range(count):
            assert not tally.is_complete, number
            tally.add(events.new())
        assert tally.is_complete
        assert 0 < tally.first_at <= tally.last_at
    assert len(events.new()) == 16
    assert 0 <= age(events.new()) < 60


def test_ratios_are_those_of_one_run() -> None:
    metrics = {
        "deliveries": (50.0, "1/s"),
        "cpu": (4.0, "us"),
        "p50": (3.0, "us"),
        "p99": (9.0, "us"),
    }
    other = {
        "deliveries": (100.0, "1/s"),
        "cpu": (2.0, "us"),
        "p50": (3.0, "us"),
        "p99": (3.0, "us"),
    }
    [(settings, found)] = ratios([(Way("Zenoh"), other), (Way(CAMCAST), metrics)])
    assert settings["against"] == "Zenoh"
    assert settings["dissemination"] == "lazy"
    assert {name: value for name, (value, _) in found.items()} == {
        "deliveries ratio": 0.5,
        "cpu ratio": 2.0,
        "p50 ratio": 1.0,
        "p99 ratio": 3.0,
    }


def test_every_setting_of_nodes_is_measured() -> None:
    options = fanout.WORKLOAD.defaults(quick=False)
    options.sealed, options.datagram_size, options.peers = ["no", "yes"], [0, 1400], ["zmq"]
    found = fanout.ways(options)
    assert [way.system for way in found] == [PLAIN, "ZeroMQ"] + [CAMCAST] * 4
    assert {(way.setting.sealed, way.setting.datagram_size) for way in found[2:]} == {
        (False, None),
        (False, 1400),
        (True, None),
        (True, 1400),
    }


def test_an_absent_peer_is_named_and_the_others_are_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def absent(package: str, module: str) -> object:
        raise NotInstalled(f"{module} is not installed (PyPI's package: {package})")

    monkeypatch.setattr(roles, "library", absent)
    options = fanout.WORKLOAD.defaults(quick=False)
    options.peers, options.subscribers, options.events, options.rate = ["zenoh"], [1], 50, 100.0
    options.runs = 1
    options.dissemination = []  # plain UDP and the peer only
    rows = list(fanout.run(options))
    [left_out] = [row for row in rows if row.metric == LEFT_OUT]
    assert left_out.settings == {"system": "Zenoh"}
    assert "PyPI's package: eclipse-zenoh" in left_out.note
    assert [row.value for row in rows if row.metric == "delivered"] == [1.0]


@pytest.mark.parametrize("name", list(fanout.PEERS))
def test_peers_deliver_everything(name: str) -> None:
    way = Way(fanout.PEERS[name].name)
    try:
        with fanout.company(way, 2) as company:
            outcome = fanout.work_once(company, Work(200, 16))
    except NotInstalled as missing:
        pytest.skip(str(missing))
    assert [report.events for report in outcome.received] == [200, 200]


def test_nodes_deliver_everything_sealed_and_signed() -> None:
    setting = fanout.NodeSetting(sealed=True, signed=True, datagram_size=1400, settling=1.0)
    with fanout.company(Way(CAMCAST, setting), 2) as company:
        outcome = fanout.work_once(company, Work(200, 16))
    assert [report.events for report in outcome.received] == [200, 200]
    assert throughput(outcome, 16)["bytes_sent"][0] > 1


def test_events_too_small_for_the_time_are_refused() -> None:
    options = fanout.WORKLOAD.defaults(quick=False)
    options.bytes = [7]
    with pytest.raises(UsageError, match="at least 8 bytes"):
        next(iter(fanout.run(options)))


def test_of_large_events_fewer_are_published() -> None:
    assert fanout.events_for(100_000, 256) == 100_000
    assert fanout.events_for(100_000, 4096) == 16_384
    assert fanout.events_for(5, 1 << 30) == 1
