"""Every shard that one node holds, within fixed bounds on memory."""

from __future__ import annotations

from overlay.contact import Address, Contact, PeerId
from overlay.directory.config import DirectoryConfig
from overlay.directory.held_shard import HeldShard
from overlay.directory.tree import Shard


class ShardStore:
    """Shards by their place in the tree; one record for each member in each shard.

    No member is evicted to make room, since records expire by themselves within one time-to-live: what
    does not fit is refused, so that a flood cannot push out those that were there before.
    """

    def __init__(self, config: DirectoryConfig) -> None:
        self._config = config
        self._shards: dict[Shard, HeldShard] = {}
        self._per_address: dict[Address, int] = {}
        self._withdrawn: dict[tuple[Shard, PeerId], tuple[int, float]] = {}
        self._swept = float("-inf")
        self.records = 0

    def __len__(self) -> int:
        return len(self._shards)

    def held(self, shard: Shard) -> HeldShard | None:
        """The shard as it is, with what may have expired just now."""
        return self._shards.get(shard)

    def get(self, shard: Shard, now: float) -> HeldShard | None:
        """The shard, without what has expired; None where nothing is held."""
        self._sweep(now)
        held = self._shards.get(shard)
        if held is not None and held.next_expiry() <= now:
            self._expire(shard, held, now)
            return self._shards.get(shard)
        return held

    def put(self, shard: Shard, sender: Contact, leaf_depth: int, stay: int, now: float) -> str:
        """Hold the sender; an empty string, or the reason why not."""
        held = self.get(shard, now)
        former = held.get(sender.id) if held else None
        if self._withdrawn.get((shard, sender.id), (None, 0.0))[0] == stay:
            return "withdrawn"
        if former is not None and former.contact != sender:
            return "held_elsewhere"
        if held is not None and not held.has_room(sender.id, leaf_depth):
            return "shard_full"
        if former is None:
            self._replace_at(held, sender)
            refusal = self._no_room(sender)
            if refusal:
                return refusal
            self.records += 1
            self._per_address[sender.address] = self._per_address.get(sender.address, 0) + 1
        if held is None:
            held = self._shards[shard] = HeldShard(shard, self._config, now)
        held.put(sender, leaf_depth, stay, now)
        surplus = held.oldest_trace_above(self._config.capacity)
        if surplus is not None:
            self._drop(shard, held, surplus)
        return ""

    def remove(self, shard: Shard, sender: Contact, stay: int, now: float) -> None:
        """Forget the sender, and remember for a while that this stay of its is over."""
        held = self.get(shard, now)
        record = held.get(sender.id) if held else None
        if record is not None and record.contact != sender:
            return
        self._withdrawn.pop((shard, sender.id), None)
        self._withdrawn[shard, sender.id] = (stay, now + self._config.record_life)
        if len(self._withdrawn) > self._config.max_records // 4:
            del self._withdrawn[next(iter(self._withdrawn))]
        if held is not None and record is not None:
            self._drop(shard, held, sender)

    def forget(self, shard: Shard, member: Contact) -> None:
        """Drop a member that has crashed."""
        held = self._shards.get(shard)
        record = held.get(member.id) if held is not None else None
        if held is not None and record is not None and record.contact == member:
            self._drop(shard, held, member)

    def _replace_at(self, held: HeldShard | None, sender: Contact) -> None:
        """A process that came back with another id takes the place of what it was before."""
        former = held.at(sender.address) if held else None
        if held is not None and former is not None:
            held.remove(former)
            self._forget([sender.address])

    def _no_room(self, sender: Contact) -> str:
        if self.records >= self._config.max_records:
            return "store_full"
        if self._per_address.get(sender.address, 0) >= self._config.max_records_per_address:
            return "address_full"
        return ""

    def _drop(self, shard: Shard, held: HeldShard, sender: Contact) -> None:
        held.remove(sender.id)
        self._forget([sender.address])
        if not held:
            del self._shards[shard]

    def _sweep(self, now: float) -> None:
        """Expire everywhere, now and then: shards that nobody asks for must go too."""
        if now - self._swept < self._config.period / 4:
            return
        self._swept = now
        for shard, held in list(self._shards.items()):
            if held.next_expiry() <= now:
                self._expire(shard, held, now)
        while self._withdrawn:
            oldest = next(iter(self._withdrawn))
            if self._withdrawn[oldest][1] > now:
                break
            del self._withdrawn[oldest]

    def _expire(self, shard: Shard, held: HeldShard, now: float) -> None:
        self._forget(held.expire(now))
        if not held:
            del self._shards[shard]

    def _forget(self, addresses: list[Address]) -> None:
        for address in addresses:
            self.records -= 1
            left = self._per_address[address] - 1
            if left:
                self._per_address[address] = left
            else:
                del self._per_address[address]
