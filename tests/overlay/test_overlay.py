"""The front door, on the virtual network: real DHT nodes, real datagrams, virtual time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from overlay import Overlay
from overlay.contact import Address, Contact, PeerId
from overlay.dht import DhtConfig, NoBootstrapAnswer, ValueTooLarge
from overlay.directory import DirectoryConfig
from overlay.directory.messages import Query, ShardReply
from overlay.directory.tree import fingerprint
from overlay.errors import ClosedError, UsageError
from overlay.membership.interface import TopicDirectory
from overlay.overlay import CountError, NotOpenError, OverlayClosedError
from overlay.runtime import Runtime, RuntimeConfig
from overlay.topic_name import TopicNameError
from overlay.transport.config import EndpointConfig
from overlay.virtual import Latency, Network, nth_host

TOPIC = "/soccer/italy"
T = TypeVar("T")
SMALL_SHARDS = DirectoryConfig(split=16, merge=8, capacity=64)


class Village:
    """Overlays, each on a host of its own."""

    def __init__(self, net: Network, directory: DirectoryConfig | None = None) -> None:
        self.net = net
        self.directory = directory
        self.overlays: dict[str, Overlay] = {}
        self.hosts = 0

    async def add(self, **options: Any) -> Overlay:
        self.hosts += 1
        host = nth_host(self.hosts)
        first = next(iter(self.overlays.values()), None)
        bootstrap = [first.contact.address] if first else []
        options = {"bootstrap": bootstrap, "directory": self.directory} | options

        async def start() -> Overlay:
            return await Overlay(f"{host}:4000", **options).__aenter__()

        overlay: Overlay = await self.net.spawn(host, start())
        self.overlays[host] = overlay
        return overlay

    async def grow(self, count: int, **options: Any) -> list[Overlay]:
        if not self.overlays:
            await self.add()
        return list(await asyncio.gather(*(self.add(**options) for _ in range(count))))

    def on_host(self, overlay: Overlay, work: Awaitable[T]) -> Awaitable[T]:
        async def run() -> T:
            return await work

        return self.net.spawn(overlay.contact.host, run())

    async def announce_all(self, overlays: Sequence[Overlay]) -> None:
        await asyncio.gather(*(self.on_host(o, o.announce(TOPIC)) for o in overlays))

    def crash(self, overlay: Overlay) -> None:
        host = overlay.contact.host
        self.net.crash(host)
        del self.overlays[host]


def ids(contacts: Sequence[Contact]) -> set[bytes]:
    return {contact.id for contact in contacts}


def run(main: Callable[[Village], Awaitable[T]], seed: int = 1, **network: Any) -> T:
    network = {"latency": Latency.uniform(0.005, 0.050)} | network
    directory = network.pop("directory", None)
    net = Network(seed, **network)

    async def program() -> T:
        return await main(Village(net, directory))

    return net.run(program())


def test_members_are_found_sampled_counted_and_gone_when_they_withdraw() -> None:
    async def main(village: Village) -> None:
        members = await village.grow(24)
        outsider = next(iter(village.overlays.values()))
        await village.announce_all(members)
        assert (await outsider.size(TOPIC)).members == 24
        assert ids(await outsider.sample(TOPIC, count=30)) == ids([m.contact for m in members])
        assert len(ids(await outsider.sample(TOPIC, count=12))) == 12
        assert ids(await outsider.contacts(TOPIC, count=5)) < ids([m.contact for m in members])
        assert members[0].contact not in await members[0].sample(TOPIC, count=30)
        await members[0].withdraw(TOPIC)
        assert members[0].topics == []
        assert ids(await outsider.sample(TOPIC, count=30)) == ids([m.contact for m in members[1:]])

    run(main)


def test_announcements_are_kept_alive_and_end_with_the_overlay() -> None:
    async def main(village: Village) -> None:
        members = await village.grow(6)
        outsider = next(iter(village.overlays.values()))
        await village.announce_all(members)
        await asyncio.sleep(5 * 60)
        assert (await outsider.size(TOPIC)).members == 6
        await members[0].close()
        assert (await outsider.size(TOPIC)).members == 5

    run(main)


def test_crashed_members_are_in_no_sample_after_one_time_to_live() -> None:
    async def main(village: Village) -> None:
        members = await village.grow(20)
        reader = next(iter(village.overlays.values()))
        await village.announce_all(members)
        await asyncio.sleep(60)
        for member in members[:6]:
            village.crash(member)
        await asyncio.sleep(DirectoryConfig().ttl)
        assert ids(await reader.sample(TOPIC, count=40)) == ids([m.contact for m in members[6:]])
        assert (await reader.size(TOPIC)).members == 14

    run(main)


@pytest.mark.parametrize("loss", [0.1, 0.2])
def test_everything_is_right_though_slower_under_loss(loss: float) -> None:
    async def main(village: Village) -> None:
        members = await village.grow(24)
        await village.announce_all(members)
        reader = await village.add()
        assert ids(await reader.sample(TOPIC, count=60)) == ids([m.contact for m in members])
        await asyncio.sleep(60)
        assert (await reader.size(TOPIC)).members == 24
        await members[3].withdraw(TOPIC)
        assert members[3].contact not in await reader.sample(TOPIC, count=60)

    run(main, loss=loss, directory=SMALL_SHARDS)


def test_the_halves_of_a_healed_partition_see_each_other_soon() -> None:
    async def main(village: Village) -> None:
        members = await village.grow(20)
        await village.announce_all(members)
        hosts = list(village.overlays)
        village.net.partition(set(hosts[:10]), set(hosts[10:]))
        await asyncio.sleep(2 * DirectoryConfig().ttl)
        halves = [village.overlays[hosts[3]], village.overlays[hosts[15]]]
        assert (await halves[0].size(TOPIC)).members == 9
        assert (await halves[1].size(TOPIC)).members == 11
        village.net.heal()
        await asyncio.sleep(25)
        for reader in halves:
            others = [m.contact for m in members if m is not reader]
            assert ids(await reader.sample(TOPIC, count=40)) == ids(others)

    run(main, directory=DirectoryConfig())


def test_samples_are_spread_over_many_shards_of_real_nodes() -> None:
    async def main(village: Village) -> None:
        members = await village.grow(12)
        light = await village.grow(48, serve=False)
        await village.announce_all([*members, *light])
        await asyncio.sleep(60)
        reader = members[0]
        assert (await reader.size(TOPIC)).members == 60
        counts = dict.fromkeys(ids([o.contact for o in (*members[1:], *light)]), 0)
        for _ in range(50):
            sample = await reader.sample(TOPIC, count=12)
            assert len(ids(sample)) == 12
            for contact in sample:
                counts[contact.id] += 1
        assert min(counts.values()) >= 1
        assert max(counts.values()) <= 25

    run(main, directory=SMALL_SHARDS)


def test_nodes_that_invent_members_do_not_get_them_into_samples() -> None:
    async def main(village: Village) -> None:
        nodes = await village.grow(20)
        stranger = Contact(PeerId(bytes(20)), "127.9.9.9", 9)

        def invent(sender: Contact, query: Query) -> ShardReply:
            mark = fingerprint(query.topic, stranger)
            return ShardReply(True, False, 0, 0, mark.to_bytes(4, "big"), (stranger,), True, ())

        for rogue in (nodes[3], nodes[11]):
            rogue._open_dht().serve(Query, invent)
        honest = [node for node in nodes if node not in (nodes[3], nodes[11])]
        await village.announce_all(honest)
        await asyncio.sleep(100)
        for reader in (honest[0], honest[7]):
            others = [node.contact for node in honest if node is not reader]
            assert ids(await reader.sample(TOPIC, count=30)) == ids(others)

    run(main)


def test_a_newcomer_that_announces_itself_knows_at_once_how_many_there_are() -> None:
    async def main(village: Village) -> None:
        for before in range(30):
            overlay = await village.add()
            announcing = asyncio.create_task(overlay.announce(TOPIC))
            size = await overlay.size(TOPIC)
            await announcing
            # In a network that is growing, what was announced a moment ago may be missed.
            assert size.members >= before - 3

    run(main, seed=72)


def test_the_configuration_of_the_dht_may_make_a_light_member() -> None:
    async def main(village: Village) -> None:
        serving = await village.add()
        light = await village.add(dht=DhtConfig(serve=False))
        both = await village.add(dht=DhtConfig(serve=False), serve=True)
        await asyncio.sleep(5)
        assert light.contact not in serving.neighbours
        assert both.contact in serving.neighbours

    run(main, seed=71)


def test_a_light_member_uses_the_dht_without_being_part_of_it() -> None:
    async def main(village: Village) -> None:
        serving = await village.grow(10)
        light = await village.add(serve=False)
        await light.announce(TOPIC)
        await asyncio.sleep(120)
        assert all(light.contact not in overlay.neighbours for overlay in serving)
        assert light.metrics.as_dict().get("directory_records", 0) == 0
        assert ids(await serving[3].sample(TOPIC, count=3)) == {light.contact.id}
        assert (await light.size(TOPIC)).members == 1
        await light.put("key", b"value")
        record = await serving[0].get("key")
        assert record is not None
        assert record.value == b"value"

    run(main)


def test_values_have_versions_and_a_time_to_live() -> None:
    async def main(village: Village) -> None:
        nodes = await village.grow(8)
        await nodes[0].put("key", b"new", version=2, time_to_live=30)
        await nodes[1].put("key", b"old", version=1, time_to_live=30)
        record = await nodes[2].get("key")
        assert record is not None
        assert (record.value, record.version) == (b"new", 2)
        await nodes[3].put("clock", b"one")
        await asyncio.sleep(0.1)
        await nodes[4].put("clock", b"two")
        newest = await nodes[5].get("clock")
        assert newest is not None
        assert newest.value == b"two"
        await asyncio.sleep(31)
        assert await nodes[2].get("key") is None
        with pytest.raises(ValueTooLarge):
            await nodes[0].put("key", bytes(5_000))

    run(main)


def test_wrong_calls_are_refused_with_a_sentence_each() -> None:
    async def main(village: Village) -> None:
        overlay = await village.add()
        for call in (overlay.announce, overlay.withdraw, overlay.size):
            with pytest.raises(TopicNameError, match="slash"):
                await call("soccer")
        for count in (0, -1, 1.5):
            with pytest.raises(CountError, match="one member or more"):
                await overlay.sample(TOPIC, count=count)  # type: ignore[arg-type]
            with pytest.raises(CountError):
                await overlay.contacts(TOPIC, count=count)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="open already"):
            await overlay.__aenter__()
        await overlay.close()
        await overlay.close()
        for closed in (overlay.announce(TOPIC), overlay.size(TOPIC), overlay.get("key")):
            with pytest.raises(OverlayClosedError, match="make a new one"):
                await closed
        with pytest.raises(ClosedError):
            await overlay.__aenter__()

    run(main)


def test_an_overlay_is_entered_before_it_is_used() -> None:
    overlay = Overlay()
    for use in (lambda: overlay.contact, lambda: overlay.neighbours, lambda: overlay.metrics):
        with pytest.raises(NotOpenError, match="async with"):
            use()
    with pytest.raises(UsageError, match="list"):
        Overlay(bootstrap="127.0.0.1:4000")
    with pytest.raises(UsageError, match="is not an address"):
        Overlay(bootstrap=["nowhere"])


def test_joining_is_tried_again_with_a_word_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def main(village: Village) -> None:
        first = Address(nth_host(40), 4000)

        async def late() -> Overlay:
            await asyncio.sleep(6.0)
            return await Overlay(first).__aenter__()

        starting = village.net.spawn(first.host, late())
        overlay = await village.add(bootstrap=[first])
        assert ids(overlay.neighbours) == {(await starting).contact.id}

    with caplog.at_level(logging.WARNING, logger="overlay"):
        run(main)
    assert "trying again" in caplog.text


def test_no_bootstrap_node_answering_is_an_error_that_leaves_nothing_running() -> None:
    async def main(village: Village) -> None:
        before = len(asyncio.all_tasks())
        with pytest.raises(NoBootstrapAnswer, match=r"127\.0\.0\.99:4000"):
            await village.add(
                bootstrap=["127.0.0.99:4000"], dht=DhtConfig(join_attempts=2, join_backoff=0.1)
            )
        assert len(asyncio.all_tasks()) == before

    run(main)


def test_contacts_of_an_earlier_run_are_used_at_the_next_start(tmp_path: Path) -> None:
    file = tmp_path / "contacts"

    async def main(village: Village) -> None:
        nodes = await village.grow(8)
        once = await village.add(contacts_file=file)
        await once.close()
        assert file.exists()
        again = await village.add(bootstrap=[], contacts_file=file)
        assert ids(again.neighbours) >= ids([node.contact for node in nodes])

    run(main)


def test_an_overlay_shares_the_endpoint_of_a_runtime_and_leaves_it_open() -> None:
    async def main(village: Village) -> None:
        members = await village.grow(5)
        await village.announce_all(members)
        first = members[0].contact.address
        async with await Runtime.open(
            RuntimeConfig(EndpointConfig(f"{nth_host(50)}:0"))
        ) as runtime:
            async with Overlay.on(runtime.endpoint, bootstrap=[first]) as overlay:
                assert overlay.contact == runtime.contact
                assert overlay.metrics is runtime.metrics
                assert len(await overlay.sample(TOPIC, count=9)) == 5
            runtime.send_datagram(members[0].contact, _ping())

    run(main)


def _ping() -> object:
    from overlay.dht.messages import Ping

    return Ping()


def test_nothing_runs_after_closing() -> None:
    async def main(village: Village) -> None:
        before = len(asyncio.all_tasks())
        overlays = await village.grow(6)
        await village.announce_all(overlays)
        question = asyncio.ensure_future(overlays[0].sample("/other", count=3))
        await asyncio.sleep(0)
        await overlays[0].close()
        with pytest.raises(ClosedError):
            await question
        for overlay in list(village.overlays.values()):
            await overlay.close()
        assert len(asyncio.all_tasks()) == before

    run(main)


def test_withdrawing_and_announcing_in_quick_succession_ends_as_the_last_call_says() -> None:
    async def main(village: Village) -> None:
        members = await village.grow(5)
        reader, member = members[0], members[1]
        await member.announce(TOPIC)
        await asyncio.gather(member.withdraw(TOPIC), member.announce(TOPIC))
        assert ids(await reader.sample(TOPIC, count=3)) == {member.contact.id}
        await asyncio.gather(member.announce(TOPIC), member.withdraw(TOPIC), member.announce(TOPIC))
        assert ids(await reader.sample(TOPIC, count=3)) == {member.contact.id}
        await asyncio.gather(member.withdraw(TOPIC), member.announce(TOPIC), member.withdraw(TOPIC))
        assert await reader.sample(TOPIC, count=3) == []

    run(main)


def test_protocol_cores_get_their_answers_by_callback() -> None:
    async def main(village: Village) -> None:
        members = await village.grow(8)
        as_cores_see_it: TopicDirectory = members[0].service
        await village.announce_all(members[1:])
        as_cores_see_it.announce(TOPIC)
        await asyncio.sleep(1.0)
        answers: list[object] = []
        as_cores_see_it.contacts(TOPIC, 2, answers.append)
        as_cores_see_it.sample(TOPIC, 20, answers.append)
        as_cores_see_it.size(TOPIC, answers.append)
        await asyncio.sleep(1.0)
        assert sorted(len(a) for a in answers if isinstance(a, tuple)) == [2, 7]
        assert 8.0 in answers
        as_cores_see_it.withdraw(TOPIC)
        await asyncio.sleep(1.0)
        assert (await members[1].size(TOPIC)).members == 7
        assert len(answers) == 3

    run(main)


def test_a_question_that_the_closing_interrupts_is_answered_with_nothing() -> None:
    async def main(village: Village) -> None:
        members = await village.grow(5)
        directory = members[0].service
        answers: list[object] = []
        directory.sample(TOPIC, 3, answers.append)
        directory.size(TOPIC, answers.append)
        await asyncio.sleep(0)
        await members[0].close()
        await asyncio.sleep(0)
        assert answers == [(), 0.0]

    run(main)
