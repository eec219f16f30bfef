"""The states of one end of a channel, as tables: which event leads from where to where, and what is done.

There are two tables. `PHASES` is the life of a session: the pair of numbers that the two ends agreed on.
`VOICES` says whether the peer answers. `public_state` is what both come to for those who use the channel.
`core.ChannelCore` performs the actions: the action `x` is its method `_do_x`.

    python -m overlay.channel.machine      prints the diagram of docs/channels.md
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class ChannelState(Enum):
    """Whether the two ends can talk."""

    OPENING = "opening"
    """The peer has not answered yet."""
    OPEN = "open"
    """The peer answers."""
    CLOSED = "closed"
    """The peer leaves everything unanswered: it crashed, or a partition is between. It is asked again and
    again, and what was not acknowledged is sent again as soon as the peer is heard."""
    IDLE = "idle"
    """Nothing is kept for this peer: both ends agreed to dissolve an unused channel, or a closed one was
    given up. The next message opens it anew."""


@dataclass(frozen=True, slots=True)
class PeerRestarted:
    """The peer knows nothing of the session: it restarted, left, or had given this node up."""

    lost: int
    """Messages that were sent and not acknowledged: the peer may or may not have had them."""


ChannelEvent = ChannelState | PeerRestarted
"""What a channel reports."""


class Phase(Enum):
    """Where a session is in its life."""

    OPENING = "opening"
    """The peer's session is not known to be current; no segment is sent."""
    ESTABLISHED = "established"
    """Both ends know both numbers: messages flow."""
    DRAINING = "draining"
    """The peer wants to dissolve: no new message, until all that were begun are acknowledged."""
    CLOSING = "closing"
    """This end wants to dissolve: no new segment is ever sent in this session."""
    OVER = "over"
    """The session ended; the next one begins at once, if there is anything to do."""
    GONE = "gone"
    """Nothing is kept."""


class Voice(Enum):
    """Whether the peer answers what it is asked."""

    HEARD = "heard"
    SILENT = "silent"


class ChannelInput(Enum):
    """What happens to a session."""

    MET = "a packet names both sessions"
    REFUSED = "the peer that asked to open is gone"
    UNUSED = "a peer asked to open and never came back"
    IDLE = "unused for idle_after"
    PEER_CLOSES = "the peer sends CLOSE"
    FINISHED = "all that was begun is acknowledged"
    PEER_LOST = "the peer sends RESET"
    STUCK = "answers, and no progress for forget_after"
    ADDRESS_TAKEN = "another process answers at the peer's address"
    FORGOTTEN = "no answer for forget_after"
    ABANDONED = "the owner closes"
    NEEDED = "something waits to be sent"
    NOT_NEEDED = "nothing waits"
    UNANSWERED = "no answer for close_after"
    ANSWERED = "an answer"


class Transition(NamedTuple):
    """The phase that follows, and the action that is performed on the way."""

    phase: Phase
    action: str


_OVER = Phase.OVER

_ANY_SESSION = {
    ChannelInput.FORGOTTEN: Transition(_OVER, "give_up"),
    ChannelInput.ADDRESS_TAKEN: Transition(_OVER, "give_up_and_report"),
    ChannelInput.ABANDONED: Transition(Phase.GONE, "discard"),
}
_KNOWN_PEER = {
    **_ANY_SESSION,
    ChannelInput.PEER_LOST: Transition(_OVER, "leave_and_report"),
    ChannelInput.STUCK: Transition(_OVER, "refuse_and_report"),
}

PHASES: dict[Phase, dict[ChannelInput, Transition]] = {
    Phase.OPENING: {
        ChannelInput.MET: Transition(Phase.ESTABLISHED, "establish"),
        ChannelInput.REFUSED: Transition(Phase.GONE, "end"),
        ChannelInput.UNUSED: Transition(Phase.GONE, "end"),
        **_ANY_SESSION,
    },
    Phase.ESTABLISHED: {
        ChannelInput.IDLE: Transition(Phase.CLOSING, "ask"),
        ChannelInput.PEER_CLOSES: Transition(Phase.DRAINING, "finish"),
        **_KNOWN_PEER,
    },
    Phase.DRAINING: {
        ChannelInput.PEER_CLOSES: Transition(Phase.DRAINING, "finish"),
        ChannelInput.FINISHED: Transition(_OVER, "refuse_and_leave"),
        **_KNOWN_PEER,
    },
    Phase.CLOSING: {
        ChannelInput.PEER_CLOSES: Transition(_OVER, "refuse_and_leave"),
        **_KNOWN_PEER,
        ChannelInput.PEER_LOST: Transition(_OVER, "leave"),
    },
    Phase.OVER: {
        ChannelInput.NEEDED: Transition(Phase.OPENING, "begin"),
        ChannelInput.NOT_NEEDED: Transition(Phase.GONE, "end"),
    },
    Phase.GONE: {},
}

VOICES: dict[Voice, dict[ChannelInput, Voice]] = {
    Voice.HEARD: {ChannelInput.UNANSWERED: Voice.SILENT},
    Voice.SILENT: {
        ChannelInput.ANSWERED: Voice.HEARD,
        ChannelInput.MET: Voice.HEARD,
        ChannelInput.NEEDED: Voice.HEARD,
    },
}
"""An event that a voice does not list leaves it as it is."""


def public_state(phase: Phase, voice: Voice) -> ChannelState:
    """What those who use the channel are told."""
    if phase is Phase.GONE:
        return ChannelState.IDLE
    if voice is Voice.SILENT:
        return ChannelState.CLOSED
    return ChannelState.OPENING if phase is Phase.OPENING else ChannelState.OPEN


def diagram() -> str:
    """Both tables as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {Phase.OPENING.value}"]
    for phase, transitions in PHASES.items():
        edges: dict[Phase, list[str]] = {}
        for event, (target, action) in transitions.items():
            edges.setdefault(target, []).append(f"{event.value} / {action}")
        for target, labels in edges.items():
            lines.append(f"    {phase.value} --> {target.value}: {'<br>'.join(labels)}")
    lines.append(f"    {Phase.GONE.value} --> [*]")
    lines.append("    state answering {")
    for voice, targets in VOICES.items():
        reached: dict[Voice, list[str]] = {}
        for event, heard in targets.items():
            reached.setdefault(heard, []).append(event.value)
        for heard, reasons in reached.items():
            lines.append(f"        {voice.value} --> {heard.value}: {'<br>'.join(reasons)}")
    lines.append("    }")
    return "\n".join(lines)


if __name__ == "__main__":
    print(diagram())
