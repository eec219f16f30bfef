"""Reading an append-only log back after a stop, a crash, or worse.

Batches are written one after the other, each synced before the next begins. So only the last batch of the log
can be torn; whatever is wrong before it has been synced once and has changed since. The last batch was synced
too if the mark beside the log says so. From this:

- A torn batch is dropped whole, as if it had never been written: none of it had been acknowledged.
- Of a synced batch everything that can be read counts, and the rest is reported as damage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pubsub.archive.store.change_codec import Held
from pubsub.archive.store.changes import Append
from pubsub.archive.store.event_index import Place
from pubsub.archive.store.log_state import LogState
from pubsub.archive.store.segment import (
    EVENT,
    FOOTER,
    HEADER,
    SNAPSHOT,
    Found,
    Segment,
    change_in,
    topic_check,
)
from pubsub.reliable.numbers import Span


@dataclass
class Recovery:
    """What was found in a log when it was opened."""

    state: LogState = field(default_factory=LogState)
    last_batch: int = 0
    """The highest number of a batch that was, or may have been, synced."""
    tail: str = ""
    """What is wrong with the end of the log: `torn`, `corrupt`, or nothing."""
    state_damaged: bool = False
    """A change other than an event was lost, and no later snapshot makes up for it."""
    clean_end: bool = True
    """Nothing but whole records before the end of the last segment."""
    last_seen: dict[str, int] = field(default_factory=dict)
    """The number of each topic's latest event so far."""
    topics: dict[int, str] = field(default_factory=dict)
    """The topics that any record names, by their checksums."""
    salvaged: list[Append] = field(default_factory=list)
    """Events to be written again: they were read though their headers cannot be."""
    holes: list[dict[str, int]] = field(default_factory=list)
    """For each stretch of bytes whose headers are gone: `last_seen` before it, as far as not closed yet."""


def recover(segments: list[Segment], synced_batch: int) -> Recovery:
    """Read the segments, oldest first, cut a torn batch off the last one, and put the rest together."""
    recovery = Recovery()
    scans = [segment.scan() for segment in segments]
    last = max((one.header.batch for scan in scans for one in scan if one.header), default=0)
    if scans and all(one.header is None for one in scans[-1]):
        synced_batch = max(synced_batch, last)  # or the last segment would not have been begun
    of_last = [one for scan in scans for one in scan if one.header and one.header.batch == last]
    cut_from: int | None = last + 1
    if not _is_whole(of_last) and last > synced_batch:
        cut_from = last
    elif synced_batch > last or not _has_end(of_last):
        cut_from, recovery.tail, recovery.clean_end = None, "corrupt", False
    recovery.last_batch = max(last, synced_batch)
    for scan in scans:
        for one in scan:
            if one.body is not None and not _is_footer(one):
                change = change_in(one)
                topic = change.event.topic if isinstance(change, Append) else change.topic
                recovery.topics[topic_check(topic)] = topic
    for segment, scan in zip(segments, scans, strict=True):
        if segment is segments[-1] and cut_from is not None:
            scan = _cut(recovery, segment, scan, cut_from)
        _replay(recovery, segment, scan)
    _close_holes(recovery)
    return recovery


def _is_whole(records: list[Found]) -> bool:
    """Whether all records of a batch can be read; of its footer it is enough that it is there, uncut."""
    return (
        all(one.body is not None or _is_footer(one) for one in records)
        and [one.header.index for one in records if one.header] == list(range(len(records)))
        and _has_end(records)
    )


def _has_end(records: list[Found]) -> bool:
    return not records or _is_footer(records[-1])


def _is_footer(found: Found) -> bool:
    header = found.header
    is_uncut = header is not None and found.end - found.offset == HEADER + header.length
    return header is not None and header.kind == FOOTER and is_uncut


def _cut(recovery: Recovery, segment: Segment, scan: list[Found], cut_from: int) -> list[Found]:
    """Cut a torn batch off the end: its records, and bytes behind the last record that counts."""
    keep = [place for place, one in enumerate(scan) if one.header and one.header.batch < cut_from]
    kept = keep[-1] + 1 if keep else 0
    if kept == len(scan):
        recovery.clean_end = not scan or scan[-1].body is not None
        return scan
    recovery.tail = "torn"
    segment.truncate(scan[kept].offset)
    return scan[:kept]


def _replay(recovery: Recovery, segment: Segment, scan: list[Found]) -> None:
    """Take a segment's records in, batch by batch."""
    start = 0
    for place, one in enumerate(scan):
        following = scan[place + 1].header if place + 1 < len(scan) else None
        if one.header is None or following is None or following.batch != one.header.batch:
            _take(recovery, segment, scan[start : place + 1])
            start = place + 1


def _take(recovery: Recovery, segment: Segment, pieces: Sequence[Found]) -> None:
    whole = _is_whole(list(pieces))
    if any(one.body is None or one.is_restored for one in pieces):
        segment.is_damaged = True
    pieces = [one for one in pieces if not _is_footer(one)]
    changes = [(change_in(one), _place(segment, one)) for one in pieces if one.body is not None]
    if pieces and whole and all(one.header and one.header.kind == SNAPSHOT for one in pieces):
        recovery.state.restore([change for change, _ in changes])
        recovery.state_damaged = False
        recovery.holes = []  # the snapshot tells what is missing
        return
    recovery.state.settle(
        [(change, place) for change, place in changes if not isinstance(change, Held)]
    )
    for one in pieces:
        change = change_in(one) if one.is_restored and one.body is not None else None
        if isinstance(change, Append):
            recovery.salvaged.append(change)
        _note(recovery, segment, one)
    if any(one.header and one.header.kind == SNAPSHOT for one in pieces):
        recovery.state_damaged = True


def _place(segment: Segment, found: Found) -> Place | None:
    is_event = found.header is not None and found.header.kind == EVENT
    return Place(segment.number, found.offset, found.end - found.offset) if is_event else None


def _note(recovery: Recovery, segment: Segment, one: Found) -> None:
    """Keep track of damage, and of the numbers on both sides of it."""
    if one.header is None:
        recovery.state_damaged = True
        recovery.holes.append(dict(recovery.last_seen))
        return
    topic = recovery.topics.get(one.header.topic_check, "")
    if one.body is None:
        if one.header.kind == EVENT:
            last = recovery.state.registry.last
            last[topic] = max(last.get(topic, 0), one.header.sequence)  # not to be given again
            recovery.state.spoil(topic, Span(one.header.sequence, one.header.sequence))
            recovery.state.name(topic, one.header.sequence, one.header.id)
        else:
            recovery.state_damaged = True
    if one.header.kind == EVENT:
        for hole in recovery.holes:
            if topic not in hole or hole[topic] >= 0:
                _spoil_between(recovery, topic, hole.get(topic, 0), one.header.sequence)
                hole[topic] = -1
        recovery.last_seen[topic] = one.header.sequence


def _close_holes(recovery: Recovery) -> None:
    """Holes that no later event of a topic has closed reach to the highest number."""
    for hole in recovery.holes:
        for topic, last in recovery.state.registry.last.items():
            if hole.get(topic, 0) >= 0:
                _spoil_between(recovery, topic, hole.get(topic, 0), last + 1)


def _spoil_between(recovery: Recovery, topic: str, before: int, after: int) -> None:
    if before + 1 < after:
        recovery.state.spoil(topic, Span(before + 1, after - 1))
