"""Stores of an archive: SQLite, append-only files, PostgreSQL, behind one interface.

store = open_store("sqlite:///events.db")
async with GroupCommit(store) as writer:
    await writer.commit([event, ...])     # returns when a sync to the disk has covered them
store.events("/soccer", after=0, limit=100)
"""

from pubsub.archive.errors import StoreError
from pubsub.archive.store.changes import (
    AdvanceSync,
    Catenate,
    Change,
    Deregister,
    Drop,
    ForgetStreams,
    ForgetTopic,
    GapsTold,
    Note,
    PutEntity,
    Reserve,
    StoredEvent,
)
from pubsub.archive.store.gaps import EntityGap
from pubsub.archive.store.group_commit import GroupCommit
from pubsub.archive.store.opening import open_store
from pubsub.archive.store.registry import Entity
from pubsub.archive.store.retention import Retention, Scan
from pubsub.archive.store.store import Damage, Holding, Store

__all__ = [
    "AdvanceSync",
    "Catenate",
    "Change",
    "Damage",
    "Deregister",
    "Drop",
    "Entity",
    "EntityGap",
    "ForgetStreams",
    "ForgetTopic",
    "GapsTold",
    "GroupCommit",
    "Holding",
    "Note",
    "PutEntity",
    "Reserve",
    "Retention",
    "Scan",
    "Store",
    "StoreError",
    "StoredEvent",
    "open_store",
]
