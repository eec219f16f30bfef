"""The tables of states: complete, reachable, performed by the channel, and drawn in the documentation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from overlay.channel.core import ChannelCore
from overlay.channel.machine import (
    PHASES,
    VOICES,
    ChannelInput,
    ChannelState,
    Phase,
    Voice,
    diagram,
    public_state,
)

DOCS = Path(__file__).parents[3] / "docs" / "channels.md"


def test_every_action_is_a_method_of_the_channel_and_every_method_an_action() -> None:
    named = {action for row in PHASES.values() for _, action in row.values()}
    methods = {name.removeprefix("_do_") for name in vars(ChannelCore) if name.startswith("_do_")}
    assert named == methods


def test_every_phase_has_a_row_is_reached_and_ends() -> None:
    assert set(PHASES) == set(Phase)
    reached, seen = [Phase.OPENING], set[Phase]()
    while reached:
        phase = reached.pop()
        if phase not in seen:
            seen.add(phase)
            reached += [target for target, _ in PHASES[phase].values()]
    assert seen == set(Phase)
    assert PHASES[Phase.GONE] == {}
    living = set(Phase) - {Phase.GONE, Phase.OVER}
    assert all(ChannelInput.ABANDONED in PHASES[phase] for phase in living)
    assert all(ChannelInput.FORGOTTEN in PHASES[phase] for phase in living)


def test_every_event_is_used() -> None:
    used = {event for row in PHASES.values() for event in row}
    used |= {event for row in VOICES.values() for event in row}
    assert used == set(ChannelInput)


def test_what_users_are_told() -> None:
    told = {(phase, voice): public_state(phase, voice) for phase in Phase for voice in Voice}
    assert told[Phase.OPENING, Voice.HEARD] is ChannelState.OPENING
    assert told[Phase.ESTABLISHED, Voice.HEARD] is ChannelState.OPEN
    assert told[Phase.CLOSING, Voice.SILENT] is ChannelState.CLOSED
    assert {told[Phase.GONE, voice] for voice in Voice} == {ChannelState.IDLE}


def test_the_diagram_in_the_documentation_is_drawn_from_the_tables() -> None:
    command = [sys.executable, "-m", "overlay.channel.machine"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed.strip() == diagram()
    assert f"```mermaid\n{diagram()}\n```" in DOCS.read_text()
