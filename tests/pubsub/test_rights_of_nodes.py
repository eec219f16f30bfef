"""A network with an authority: only what its publisher may publish is delivered and passed on."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from overlay.errors import UsageError
from overlay.identity import Identity
from overlay.virtual import Network, nth_host
from pubsub import Node
from pubsub.cli import main as camcast
from pubsub.cli import parser_for
from pubsub.cli.options import with_file
from pubsub.cli.right import publish_revocation
from pubsub.config import ConfigurationError
from pubsub.requests import NoReply
from pubsub.rights import Action, Grant, RightError, grant_first, grant_on
from tests.pubsub.playground import received

KEYS = [bytes(range(32))]
READER = Identity(bytes([9]) * 32)
ROOT, ALICE, BOB, MALLORY = (Identity(bytes([number]) * 32) for number in range(1, 5))
FOR_ALICE = grant_first(
    ROOT, Grant(ALICE.public_key, Action.PUBLISH | Action.SUBSCRIBE, "/soccer/**", passes=1)
)

TO_READ = grant_first(ROOT, Grant(READER.public_key, Action.SUBSCRIBE, "/soccer/**")).packed


def node_at(number: int, identity: Identity, *rights: bytes) -> Node:
    return Node(
        listen=f"{nth_host(number)}:4000",
        bootstrap=[f"{nth_host(0)}:4000"] if number else [],
        keys=KEYS,
        identity=identity,
        authority=[ROOT.public_key],
        rights=rights,
    )


def test_who_has_the_right_is_heard_and_who_has_not_cannot_publish() -> None:
    italy = grant_on(
        FOR_ALICE, ALICE, Grant(BOB.public_key, Action.PUBLISH, "/soccer/italy/**")
    ).packed

    async def main() -> None:
        async with (
            node_at(0, READER, TO_READ) as reader,
            node_at(1, ALICE, FOR_ALICE.packed) as alice,
            node_at(2, BOB, italy) as bob,
            reader.subscribe("/soccer") as events,
        ):
            await alice.publish("/soccer", "by Alice", wait="acked")
            await bob.publish("/soccer/italy", "by Bob", wait="acked")
            with pytest.raises(RightError, match="no right to publish on /soccer/spain"):
                await bob.publish("/soccer/spain", "not his")
            with pytest.raises(RightError, match="no right to publish"):
                await reader.publish("/soccer", "not mine")
            assert sorted(event.data for event in await received(events, 2)) == [
                "by Alice",
                "by Bob",
            ]

    Network(1).run(main())


def test_who_asks_needs_the_right_to_publish_and_who_serves_the_right_to_subscribe() -> None:
    """Mallory's node does not ask itself whether it may."""

    async def main() -> None:
        async with (
            node_at(0, READER, TO_READ) as server,
            node_at(1, ALICE, FOR_ALICE.packed) as alice,
            node_at(2, MALLORY) as mallory,
            server.serve("/soccer/score") as requests,
        ):

            async def answer() -> None:
                async for request in requests:
                    await request.reply("2:1")

            answering = asyncio.ensure_future(answer())
            assert await alice.request("/soccer/score") == "2:1"
            with pytest.raises(RightError, match="no right to publish"):
                await server.request("/soccer/score")
            with pytest.raises(RightError, match="no right to subscribe"):
                mallory.serve("/soccer/score")
            gate = mallory.attachment.gate
            assert gate is not None
            gate.own.check = lambda action, topic: None  # type: ignore[method-assign]
            with pytest.raises(NoReply):
                await mallory.request("/soccer/score", timeout=3.0)
            async with mallory.serve("/soccer/table"):
                with pytest.raises(NoReply):
                    await alice.request("/soccer/table", timeout=3.0)
            answering.cancel()

    Network(1).run(main())


def test_what_a_member_publishes_without_a_right_is_neither_delivered_nor_forwarded() -> None:
    """Mallory may subscribe; her node does not ask, signs, and shows no right to publish, or Alice's."""
    reads = grant_first(ROOT, Grant(MALLORY.public_key, Action.SUBSCRIBE, "/soccer")).packed

    async def main() -> None:
        async with (
            node_at(0, READER, TO_READ) as reader,
            node_at(1, MALLORY, reads) as mallory,
            node_at(2, ALICE, FOR_ALICE.packed) as alice,
            reader.subscribe("/soccer") as events,
        ):
            for right in (b"", FOR_ALICE.packed):
                mallory._carrier._rights = None
                mallory._carrier._right_of["/soccer"] = right
                await mallory.publish("/soccer", "forged", wait="acked")
            await asyncio.sleep(1)
            await alice.publish("/soccer", "real", wait="acked")
            assert [event.data for event in await received(events, 1)] == ["real"]
            dropped = reader.metrics.as_dict()["events_dropped"]
            assert isinstance(dropped, dict)
            assert dropped["no_right"] >= 2

    Network(1).run(main())


def test_a_right_ends_with_its_time() -> None:
    async def main() -> None:
        short = grant_first(
            ROOT, Grant(ALICE.public_key, Action.PUBLISH, "/soccer", int(time.time()) + 100)
        )
        async with node_at(0, ALICE, short.packed) as alice:
            await alice.publish("/soccer", 1)
            await asyncio.sleep(200)
            with pytest.raises(RightError, match="no right"):
                await alice.publish("/soccer", 2)

    Network(1).run(main())


def test_mistakes_in_the_configuration_are_named() -> None:
    with pytest.raises(ConfigurationError, match="authority"):
        Node(rights=[FOR_ALICE.packed])
    with pytest.raises(UsageError, match="public keys"):
        Node(authority=[b"short"])
    with pytest.raises(UsageError, match="not a right"):
        Node(authority=[ROOT.public_key], rights=["00"])
    with pytest.raises(ConfigurationError, match="hexadecimal"):
        Node(authority=["xyz"])
    assert Node(authority=[ROOT.public_key.hex()]).config.signatures


def test_a_right_is_taken_back_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    authority, ring, file = (tmp_path / name for name in ("root.pem", "ring", "node.toml"))
    root = Identity.load_or_create(authority)
    right = grant_first(root, Grant(ALICE.public_key, Action.PUBLISH, "/soccer"))
    ring.write_text(KEYS[0].hex())
    ring.chmod(0o600)
    file.write_text(
        f'listen = "{nth_host(1)}:4000"\nbootstrap = ["{nth_host(0)}:4000"]\n'
        f'key_file = "{ring}"\nauthority = ["{root.public_key.hex()}"]\n'
    )
    words = [
        "right",
        "revoke",
        right.packed.hex(),
        "--signer",
        str(authority),
        "--config",
        str(file),
    ]
    arguments = parser_for(words).parse_args(words)

    async def main() -> None:
        settings = {"authority": [root.public_key], "rights": [right.packed], "identity": ALICE}
        async with Node(listen=f"{nth_host(0)}:4000", keys=KEYS, **settings) as alice:
            await alice.publish("/soccer", 1)
            assert await publish_revocation(with_file(arguments)) == 0
            with pytest.raises(RightError, match="no right"):
                await alice.publish("/soccer", 2)
            assert alice.status()["rights"]["revoked"] == [right.name]

    Network(1).run(main())
    assert f"{right.name} is taken back, 1 nodes" in capsys.readouterr().out


def test_rights_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*words: str) -> str:
        assert camcast(["right", *words]) == 0
        return capsys.readouterr().out.strip()

    authority, alice = str(tmp_path / "authority.pem"), str(tmp_path / "alice.pem")
    keys = [run("key", "--identity", path) for path in (authority, alice)]
    allow = ["--allow", "publish,subscribe", "--on", "/soccer/**"]
    until = ["--until", "2100-01-01", "--passes", "1"]
    new = ["new", "--identity", authority, "--holder", keys[1], *allow]
    assert camcast(["right", *new, "--until", "2020-01-01"]) == 1
    assert "2020-01-01 is over" in capsys.readouterr().err
    right = run(*new, *until)
    part = run(
        "delegate", right, "--identity", alice, "--holder", BOB.public_key.hex(),
        "--allow", "publish", "--on", "/soccer/italy",
    )  # fmt: skip
    shown = run("show", part, "--authority", keys[0])
    assert "may publish, subscribe on /soccer/** until 2100-01-01 00:00 UTC" in shown
    assert f"{BOB.public_key.hex()} may publish on /soccer/italy until" in shown
    assert shown.endswith("valid")
    assert camcast(["right", "show", part, "--authority", keys[1]]) == 1
    assert "signature" in capsys.readouterr().err
    again = run(*new, "--allow", "archive", *until)
    assert "may publish, subscribe, archive on" in run("show", again)
    assert camcast(["right", *new, "--on", "/tennis", *until]) == 1
    assert "--on is given twice" in capsys.readouterr().err
    wider = ["--allow", "archive", "--on", "/soccer/italy"]
    assert (
        camcast(["right", "delegate", part, "--identity", alice, "--holder", keys[0], *wider]) == 1
    )
