"""`camcast hand-over`: between real processes, by those who may, and once however often it is asked for."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from overlay.contact import Address, Contact, PeerId
from overlay.virtual import nth_host
from pubsub.archive.errors import ArchiveError, DurableUsageError
from pubsub.archive.hand_over import (
    MOST_RUNNING,
    HandedOver,
    HandOver,
    HandOverDesk,
    operator_ids,
    request_hand_over,
)
from pubsub.cli import main
from tests.pubsub.archive.test_durable_nodes import World, play
from tests.pubsub.command_process import camcast, line

OPERATOR = PeerId(bytes(range(20)))


@contextmanager
def publishing(topic: str, address: str) -> Iterator[subprocess.Popen[str]]:
    """A process that publishes each line that is written to it, durably."""
    words = ("publish", topic, "--durable", "--json", "--deadline", "60", "--bootstrap", address)
    with camcast(*words, reads=True) as process:
        yield process


@pytest.mark.sweep
def test_nothing_is_lost_when_a_topic_is_handed_over_and_its_new_archive_restarts(
    tmp_path: Path,
) -> None:
    def archive(name: str, *words: str) -> tuple[str, ...]:
        store, identity = f"sqlite:////{tmp_path}/{name}.db", str(tmp_path / f"{name}.key")
        return ("archive", "--store", store, "--identity", identity, *words)

    count = 0

    def publish(process: subprocess.Popen[str], events: int) -> None:
        nonlocal count
        assert process.stdin is not None
        for _ in range(events):
            process.stdin.write(f"{count}\n")
            process.stdin.flush()
            count += 1
            assert json.loads(line(process))["catenation"] == count

    with camcast(*archive("first", "--topic", "/soccer")) as first:
        at = line(first).removeprefix("listening on ")
        second_words = archive("second", "--accept", "/**", "--bootstrap", at)
        durable = ("--durable", "me", "--since", "beginning", "--json")
        with (
            camcast("subscribe", "/soccer", *durable, "--bootstrap", at) as subscriber,
            publishing("/soccer", at) as publisher,
        ):
            with camcast(*second_words) as second:
                to = line(second).removeprefix("listening on ")
                publish(publisher, 20)
                with camcast("hand-over", "/soccer", "--from", at, "--to", to) as handing:
                    while handing.poll() is None:
                        publish(publisher, 1)
                    assert line(handing) == f"/soccer is managed by {to}"
                    assert handing.returncode == 0
                publish(publisher, 20)
            with camcast(*second_words) as second:
                line(second)
                publish(publisher, 20)
                events = [json.loads(line(subscriber)) for _ in range(count)]
        assert [event["data"] for event in events] == [*range(count)]
        assert not any(event["missed"] for event in events)


def test_a_hand_over_that_cannot_be_is_said_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with camcast("archive", "--topic", "/soccer", "--store", "memory:") as archive:
        at = line(archive).removeprefix("listening on ")
        for words, reason in [
            (("/tennis", "--to", "127.0.0.1:1"), "does not manage /tennis"),
            (("/soccer", "--to", at), "is this one"),
            (("/soccer", "--to", "127.0.0.1:1", "--within", "1"), "no archive at 127.0.0.1:1"),
        ]:
            assert main(["hand-over", *words, "--from", at]) == 1
            errors = capsys.readouterr().err
            assert reason in errors
            assert len(errors.strip().splitlines()) == 1


class Desk:
    """An archive's desk, without an archive."""

    def __init__(self) -> None:
        self.answers: list[HandedOver] = []
        self.done: list[tuple[str, Address]] = []
        self.may_end = asyncio.Event()
        self.fails = ""
        self.desk = HandOverDesk(self, frozenset([OPERATOR]), self._do)  # type: ignore[arg-type]

    def send_datagram(self, to: Contact, message: HandedOver) -> None:
        self.answers.append(message)

    async def _do(self, topic: str, to: Address, within: float) -> None:
        self.done.append((topic, to))
        await self.may_end.wait()
        if self.fails:
            raise ArchiveError(self.fails)

    async def ask(self, nonce: int, id: PeerId = OPERATOR, host: str = "192.0.2.1") -> HandedOver:
        request = HandOver("/t", "192.0.2.7:4000", 5.0, nonce)
        self.desk.receive(Contact(id, host, 1), request)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return self.answers[-1]


def test_only_operators_and_those_on_the_same_machine_are_obeyed() -> None:
    async def main() -> None:
        desk, stranger = Desk(), PeerId(bytes(20))
        assert (await desk.ask(1, stranger)).state == "refused"
        assert "is not an operator" in desk.answers[-1].why
        assert not desk.done
        assert (await desk.ask(1, stranger, "127.0.0.1")).state == "working"
        assert (await desk.ask(1)).state == "working"
        await desk.desk.close()

    asyncio.run(main())


def test_a_hand_over_is_done_once_however_often_it_is_asked_for() -> None:
    async def main() -> None:
        desk = Desk()
        assert [(await desk.ask(nonce)).state for nonce in (1, 1, 2)] == ["working"] * 3
        desk.may_end.set()
        await desk.ask(1)
        assert [(await desk.ask(nonce)).state for nonce in (1, 2, 1)] == ["done"] * 3
        assert desk.done == [("/t", Address("192.0.2.7", 4000))]
        desk.fails = "it does not work"
        await desk.ask(3)
        answer = await desk.ask(3)
        assert (answer.nonce, answer.state, answer.why) == (3, "refused", "it does not work")
        assert len(desk.done) == 2
        await desk.desk.close()

    asyncio.run(main())


def test_one_who_may_ask_cannot_have_any_number_of_hand_overs_under_way() -> None:
    async def main() -> None:
        desk, operator = Desk(), Contact(OPERATOR, "192.0.2.1", 1)
        for nonce in range(3 * MOST_RUNNING):
            desk.desk.receive(operator, HandOver("/t", "192.0.2.7:4000", 5.0, nonce))
            desk.desk.receive(operator, HandOver(f"/t/{nonce}", "192.0.2.7:4000", 5.0, nonce))
        await asyncio.sleep(0)
        assert len(desk.done) == len(desk.desk._works) == MOST_RUNNING
        assert len(desk.desk._works["/t", Address("192.0.2.7", 4000)].asked_by) == MOST_RUNNING
        assert desk.answers[-1].state == "refused"
        assert "too many" in desk.answers[-1].why
        desk.may_end.set()
        await desk.desk.close()

    asyncio.run(main())


def test_what_is_no_operator_is_said() -> None:
    assert operator_ids([OPERATOR.hex()]) == {OPERATOR}
    with pytest.raises(DurableUsageError, match="40 hexadecimal digits"):
        operator_ids(["me"])


def test_a_request_is_repeated_through_losses_until_it_is_done() -> None:
    async def main(world: World) -> None:
        first = await world.archive("/soccer")
        second = await world.archive(accept=["/soccer"])
        node = await world.node()
        runtime = node.attachment.runtime
        at, to = first.node.address, second.node.address
        await request_hand_over(runtime, "/soccer", at, to, 60)
        assert (list(first.topics), list(second.topics)) == ([], ["/soccer"])

    play(main, loss=0.2)


def test_that_nobody_answers_a_request_is_said_within_the_time_that_was_given() -> None:
    async def main(world: World) -> None:
        node = await world.node()
        nobody, began = Address(nth_host(9), 4000), asyncio.get_running_loop().time()
        with pytest.raises(ArchiveError, match=r"no archive at .* has answered for 2"):
            await request_hand_over(node.attachment.runtime, "/soccer", nobody, nobody, 2.0)
        assert asyncio.get_running_loop().time() - began < 3

    play(main)
