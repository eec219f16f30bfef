"""The limits and times of sessions."""

from __future__ import annotations

from dataclasses import dataclass

from overlay.errors import UsageError, check_positive


@dataclass(frozen=True)
class SessionConfig:
    """Sessions of a sealed network. Times are seconds."""

    renew_after: float = 300.0
    """A session that is still in use is replaced after this time, and so are its keys."""

    end_after: float = 420.0
    """No datagram is sealed or opened in a session that is older."""

    renew_count: int = 2**40
    """Datagrams: a session that has sealed as many is replaced before its time."""

    linger: float = 10.0
    """How long a session that was replaced, or whose network key was, still opens datagrams that are late."""

    retry: float = 0.1
    """The first wait for an answer to an opening. Each further wait is twice as long, at most 1 s. An opening
    that comes again is answered without computing anything."""

    give_up_after: float = 8.0
    """An opening that is not answered for this long is given up, and what waited for it is dropped."""

    max_sessions: int = 4096
    """Peers with a session. When there is one more, the hosts with the most sessions lose those that were
    used longest ago."""

    max_half_open: int = 256
    """Sessions that were answered and whose peer has not yet used them; the oldest one makes way."""

    max_openings: int = 1024
    """Sessions that this node is opening at one time, half of them with one block of addresses; what is to be
    sent to one more address is dropped."""

    held_bytes: int = 256 * 1024
    """What may wait for one session to open; `held_total` is for all of them."""

    held_total: int = 4 * 1024 * 1024

    answers_a_second: int = 100
    """Openings that are answered in one second without a question. Above it, an address must first show by
    a cookie that it receives what it is sent, and a host gets a fifth of as many answers at most."""

    live_ciphers: int = 512
    """Sessions whose ciphers are kept ready (4.6 kB each); the others' are made again when they are used."""

    def __post_init__(self) -> None:
        check_positive(self, besides=("held_bytes", "held_total"))
        if self.end_after < self.renew_after + self.give_up_after:
            raise UsageError(
                f"end_after={self.end_after} leaves no time to renew a session: it must be at least "
                f"renew_after + give_up_after, {self.renew_after + self.give_up_after}"
            )
        if not 0 <= self.held_bytes <= self.held_total:
            raise UsageError(
                f"held_bytes={self.held_bytes} is not within 0..held_total, {self.held_total}"
            )
