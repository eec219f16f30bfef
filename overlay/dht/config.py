"""How a node takes part in the DHT."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from overlay.dht.messages import MAX_CONTACTS
from overlay.errors import UsageError


@dataclass(frozen=True)
class DhtConfig:
    """All nodes of a network have the same `k` and `verify_ids`; the rest is each node's own affair."""

    k: int = 20
    """Contacts in a bucket, in a reply and in a lookup's result, and nodes that hold a value; 1 to 64."""

    alpha: int = 3
    """Requests of one lookup in flight while it approaches; 1 to k."""

    serve: bool = True
    """False: a light member, which uses the DHT but holds nothing and is in nobody's routing table. It checks
    no silent contacts."""

    verify_ids: bool = False
    """Contacts prove that their id belongs to their key before they are trusted with anything. In a network
    with a key they always do, by their sessions; this is for a network without one."""

    contacts_file: Path | None = None
    """Where known contacts are kept for the next start."""

    join_attempts: int | None = 6
    """How often all bootstrap addresses are tried before `NoBootstrapAnswer`; None: until one answers."""

    join_backoff: float = 0.5
    """Seconds before the second attempt; doubled for each one after, up to 30, each +-50 % by chance."""

    failures_to_evict: int = 2
    """Requests in a row without an answer, each sent several times, after which a contact is dead; of those
    that only ask for a sign of life one is enough."""

    dead_for: float = 120.0
    """Seconds for which a dead contact is remembered and not asked."""

    distrusted_for: float = 60.0
    """Seconds for which a contact is shunned after a malformed reply; doubled for each one after."""

    lookup_budget: int = 12
    """Requests that one lookup may make, in multiples of k, or of the count asked for if greater."""

    lookup_deadline: float = 15.0
    """Seconds after which a lookup returns what it has."""

    lookups_at_once: int = 64
    """Lookups in flight; further ones wait for their turn."""

    disjoint_paths: int = 4
    """Paths that share no node, on which a lookup goes where somebody seems to crowd a key; each costs a
    lookup, and 1 turns this off."""

    asks_at_once: int = 1024
    """Requests of `ask` in flight; further ones wait for their turn."""

    probes_at_once: int = 32
    """Contacts in flight whose presence is being checked; further ones are not checked this time."""

    read_quorum: int = 3
    """Holders of a value that `get` hears before it returns the newest; 1 to k."""

    max_records: int = 8192
    """Records that the node holds for others, of at most 1 KiB each; a quarter of them from one address."""

    max_time_to_live: float = 86_400.0
    """Seconds: a record lives no longer, whatever its publisher says."""

    token_lifetime: float = 300.0
    """Seconds: a token is good for at least one and at most two lifetimes."""

    proof_lifetime: float = 3600.0
    """Seconds for which a contact that proved its id is not asked to again."""

    check_interval: float = 10.0
    """Seconds between two rounds of upkeep, +-20 % by chance."""

    checks_a_round: int = 1
    """Contacts that one round of upkeep checks, those heard longest ago first; one that is used and does not
    answer is noticed without, and leads to checks of others."""

    refresh_interval: float = 3600.0
    """Seconds without a lookup in its range after which a bucket is refreshed."""

    republish_interval: float = 3600.0
    """Seconds after which a record that nobody stored again is stored at the k closest nodes again."""

    save_interval: float = 600.0
    """Seconds between two savings of the known contacts; they are also saved on closing."""

    def __post_init__(self) -> None:
        if not 1 <= self.k <= MAX_CONTACTS:
            raise UsageError(f"k={self.k} is not within 1..{MAX_CONTACTS}")
        for name in ("alpha", "read_quorum"):
            if not 1 <= getattr(self, name) <= self.k:
                raise UsageError(f"{name}={getattr(self, name)} is not within 1..k={self.k}")
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int | float) and not isinstance(value, bool) and not value > 0:
                raise UsageError(f"{field.name}={value} must be greater than 0")
