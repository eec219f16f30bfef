"""Events that only those with the right to subscribe can read: not archives, distributors, or who has a disk.

The data of such an event are sealed (ChaCha20-Poly1305) under a key of its publisher, which belongs to one
topic. The event names the key by its hash. Who may subscribe to the topic asks for a key that it lacks: the
publisher, and others that it knows in the topic, who give it to those with the right; the session proves who
asks. So an event can be read as long as one node that has its key is in the network. Nobody keeps keys on
disk: what was archived under a key that all have forgotten is lost.

A publisher takes a new key after `KEY_SECONDS`, and with the first event after it heard that any right was
taken back: who lost the right cannot ask for that key. What was sealed before remains readable to those who
had the key by then.

A reader waits for a key that it lacks, and what is behind that event waits too. So that nobody holds readers
up by naming keys that do not exist, they wait half as long for each further key of the publisher, and not
at all for one that could not be had a moment ago: 20 s for all keys of one publisher in `FORGOTTEN_SECONDS`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from overlay.contact import Contact, PeerId
from overlay.context import Context, Randomness, Timer
from overlay.metrics import Metrics
from overlay.wire import WireError, message
from pubsub.data import pack_data, unpack_data
from pubsub.rights import Action, Holder

KEY_SECONDS = 3600.0
"""How long a publisher seals under one key."""

MOST_KEYS = 4096
"""Keys that a node knows; the one that was not used for longest goes."""

MOST_WANTED = 256
OF_ONE_PUBLISHER = 16
"""Keys that are being asked for; and those among them that events of one publisher name."""

ASKED_AT_ONCE = 3
AGAIN_SECONDS = 0.5
GIVE_UP_SECONDS = 10.0
"""A key that nobody gives for this long cannot be had."""

MOST_LOST = 1024
FORGOTTEN_SECONDS = 600.0
"""Keys that could not be had are remembered for this long, and at most `MOST_LOST` of them."""

_KEY_BYTES, _NAME_BYTES, _NONCE_BYTES = 32, 16, 12
_NAME, _SEALED = "camcast.key", "camcast.sealed"


@message(0xD2)
class AskKey:
    """The sender may subscribe to the topic, and lacks this key of it."""

    topic: str
    name: bytes


@message(0xD3)
class GiveKey:
    """The key that was asked for; its hash is its name."""

    topic: str
    key: bytes


def may_ask(holder: Holder, ask: AskKey) -> bool:
    """The rule of the gate for `AskKey`."""
    return holder.may(Action.SUBSCRIBE, ask.topic)


@dataclass(slots=True)
class _OwnKey:
    key: bytes
    name: bytes
    until: float
    revocations: bytes


@dataclass(slots=True)
class _Wanted:
    publisher: PeerId
    until: float
    timer: Timer
    found: list[Callable[[], None]] = field(default_factory=list)


class Secrets:
    """The keys of one node: it seals, opens, asks for keys and gives them. A core."""

    def __init__(
        self,
        context: Context,
        random: Randomness,
        revocations: Callable[[], bytes],
        peers: Callable[[PeerId], Iterable[Contact]],
        metrics: Metrics,
    ) -> None:
        """`revocations`: a digest of what was taken back. `peers(publisher)`: whom to ask for a key."""
        self._context = context
        self._random = random
        self._revocations = revocations
        self._peers = peers
        self._own: OrderedDict[str, _OwnKey] = OrderedDict()
        self._known: OrderedDict[tuple[str, bytes], bytes] = OrderedDict()
        self._wanted: dict[tuple[str, bytes], _Wanted] = {}
        self._lost: OrderedDict[tuple[str, bytes], tuple[PeerId, float]] = OrderedDict()
        """Keys that could not be had, who named them, and when they were given up."""
        self._keys = metrics.family(
            "secret_keys", "what", "Keys of encrypted topics: what became of them"
        )

    def seal(self, topic: str, data: Any) -> dict[str, bytes]:
        """What to publish in place of the data; `DataError` for data that no event carries."""
        own = self._own_key(topic)
        nonce = self._random.randbytes(_NONCE_BYTES)
        about = _about(topic, self._context.contact.id)
        sealed = ChaCha20Poly1305(own.key).encrypt(nonce, pack_data(data), about)
        return {_NAME: own.name, _SEALED: nonce + sealed}

    def is_known(self, topic: str, data: Any) -> bool:
        """Whether `open` can open the data now, if anything can."""
        name = _name_in(data)
        return name is None or (topic, name) in self._known

    def open(self, topic: str, publisher: PeerId, data: Any) -> Any:
        """The data of an event; `WireError` when they are sealed and the key is lacking, or is not theirs.

        Data that are not sealed are returned as they are."""
        name = _name_in(data)
        if name is None:
            return data
        key = self._known.get((topic, name))
        if key is None:
            raise WireError("no_key")
        self._known.move_to_end((topic, name))
        sealed = data[_SEALED]
        try:
            packed = ChaCha20Poly1305(key).decrypt(
                sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], _about(topic, publisher)
            )
        except (InvalidTag, ValueError):
            raise WireError("not_authentic") from None
        return unpack_data(packed)

    def want(self, topic: str, publisher: PeerId, data: Any, done: Callable[[], None]) -> None:
        """Call `done` once the key of sealed data has come, or is not waited for any longer."""
        name = _name_in(data)
        if name is None or (topic, name) in self._known:
            done()
            return
        wanted = self._wanted.get((topic, name))
        if wanted is None:
            of_publisher = sum(other.publisher == publisher for other in self._wanted.values())
            if len(self._wanted) >= MOST_WANTED or of_publisher >= OF_ONE_PUBLISHER:
                self._keys.add("too_many_wanted")
                done()
                return
            until = self._context.now() + self._patience(topic, name, publisher)
            wanted = _Wanted(publisher, until, self._timer(topic, name))
            self._wanted[topic, name] = wanted
            self._ask(topic, name, publisher)
        if self._context.now() < wanted.until:
            wanted.found.append(done)
        else:
            done()  # the key may still come, for later events

    def _patience(self, topic: str, name: bytes, publisher: PeerId) -> float:
        """Seconds to wait for a key: none, or `AGAIN_SECONDS` at least."""
        while self._lost:
            oldest, (_, lost_at) = next(iter(self._lost.items()))
            if len(self._lost) <= MOST_LOST and self._context.now() < lost_at + FORGOTTEN_SECONDS:
                break
            del self._lost[oldest]
        if (topic, name) in self._lost:
            return 0.0
        failed = sum(named_by == publisher for named_by, _ in self._lost.values())
        patience = GIVE_UP_SECONDS / 2.0**failed
        return patience if patience >= AGAIN_SECONDS else 0.0

    def count(self, reason: str) -> None:
        """An event could not be read."""
        self._keys.add(reason)

    def stop(self) -> None:
        """No timer is left, and nobody waits."""
        for topic, name in list(self._wanted):
            self._settle(topic, name)

    def receive_ask(self, sender: Contact, ask: AskKey) -> None:
        """Give a key to one that may have it, as the gate has made sure."""
        key = self._known.get((ask.topic, ask.name))
        if key is not None:
            self._keys.add("given")
            self._context.send(sender, GiveKey(ask.topic, key))

    def receive_key(self, sender: Contact, given: GiveKey) -> None:
        name = _name_of(given.topic, given.key)
        if len(given.key) == _KEY_BYTES and (given.topic, name) in self._wanted:
            self._keys.add("received")
            self._learn(given.topic, name, given.key)
            self._lost.pop((given.topic, name), None)
            self._settle(given.topic, name)

    def _own_key(self, topic: str) -> _OwnKey:
        now, revocations = self._context.now(), self._revocations()
        own = self._own.pop(topic, None)
        if own is None or now >= own.until or own.revocations != revocations:
            key = self._random.randbytes(_KEY_BYTES)
            own = _OwnKey(key, _name_of(topic, key), now + KEY_SECONDS, revocations)
            self._keys.add("made")
        self._own[topic] = own
        if len(self._own) > MOST_KEYS:
            self._own.popitem(last=False)
        self._learn(topic, own.name, own.key)
        return own

    def _learn(self, topic: str, name: bytes, key: bytes) -> None:
        self._known.pop((topic, name), None)
        self._known[topic, name] = key
        if len(self._known) > MOST_KEYS:
            self._known.popitem(last=False)

    def _timer(self, topic: str, name: bytes) -> Timer:
        return self._context.call_later(AGAIN_SECONDS, lambda: self._again(topic, name))

    def _again(self, topic: str, name: bytes) -> None:
        wanted = self._wanted[topic, name]
        if self._context.now() >= wanted.until:
            self._keys.add("given_up")
            self._lost.pop((topic, name), None)
            self._lost[topic, name] = wanted.publisher, self._context.now()
            self._settle(topic, name)
            return
        wanted.timer = self._timer(topic, name)
        self._ask(topic, name, wanted.publisher)

    def _ask(self, topic: str, name: bytes, publisher: PeerId) -> None:
        """The publisher, if it is known where it is, and others by chance."""
        peers = dict.fromkeys(self._peers(publisher))
        chosen = [peer for peer in peers if peer.id == publisher]
        others = [peer for peer in peers if peer.id != publisher]
        chosen += self._random.sample(others, min(ASKED_AT_ONCE, len(others)))
        for peer in chosen:
            self._context.send(peer, AskKey(topic, name))

    def _settle(self, topic: str, name: bytes) -> None:
        wanted = self._wanted.pop((topic, name))
        wanted.timer.cancel()
        for done in wanted.found:
            done()


def _name_in(data: Any) -> bytes | None:
    """The name of the key under which data are sealed; None for other data."""
    if not isinstance(data, dict) or data.keys() != {_NAME, _SEALED}:
        return None
    name, sealed = data[_NAME], data[_SEALED]
    is_sound = isinstance(name, bytes) and len(name) == _NAME_BYTES and isinstance(sealed, bytes)
    return name if is_sound else None


def _name_of(topic: str, key: bytes) -> bytes:
    return blake2b(topic.encode() + b"\0" + key, digest_size=_NAME_BYTES).digest()


def _about(topic: str, publisher: PeerId) -> bytes:
    """What sealed data belong to: nobody can publish them elsewhere, or as another's."""
    return bytes(publisher) + topic.encode()
