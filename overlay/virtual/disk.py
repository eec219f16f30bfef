"""A disk in memory that forgets what was not synced, tears writes and flips bits, all by its seed.

Programs see it as a file system (the methods of `VirtualDisk` and `VirtualFile`). What they write is in the
cache at once and on the platter after a `sync` of the file; a new name, or a removed one, after a
`sync_directory`. At a crash each file keeps what was synced, and of what was not: nothing, everything, the
first writes and a part of the next, or any of its sectors.

    disk = VirtualDisk(seed=7)
    disk.cut_power_at(disk.operations + 5)   # the fifth operation from here raises `PowerCut`, half done
    disk.crash()                             # lose what was not synced; open files are gone
    disk.flip("/archive/1.log", bit=1234)    # bit rot
"""

from __future__ import annotations

import random
from collections.abc import Mapping

SECTOR = 512
"""Bytes that a disk writes together or not at all."""


class PowerCut(OSError):
    """The disk has lost its power; nothing works until `crash` has brought it up again."""


class _Inode:
    """A file's contents: as programs see them, as they are on the platter, and the writes between the two."""

    __slots__ = ("cached", "platter", "unsynced")

    def __init__(self) -> None:
        self.cached = bytearray()
        self.platter = bytearray()
        self.unsynced: list[tuple[int, bytes | None]] = []
        """Offset and bytes of each write; no bytes for a cut at the offset."""

    def sync(self) -> None:
        for offset, data in self.unsynced:
            _put(self.platter, offset, data)
        self.unsynced = []

    def crash(self, chance: random.Random) -> None:
        """Bring the platter to one of the states that a loss of power may leave, and forget the cache."""
        fate = chance.choice(("nothing", "everything", "torn", "sectors"))
        if fate == "everything":
            self.sync()
        elif fate == "torn" and self.unsynced:
            self._keep_torn(chance)
        elif fate == "sectors":
            self._keep_sectors(chance)
        self.unsynced = []
        self.cached = bytearray(self.platter)

    def _keep_torn(self, chance: random.Random) -> None:
        whole = chance.randrange(len(self.unsynced))
        for offset, data in self.unsynced[:whole]:
            _put(self.platter, offset, data)
        offset, data = self.unsynced[whole]
        if data:
            _put(self.platter, offset, data[: chance.randrange(len(data))])

    def _keep_sectors(self, chance: random.Random) -> None:
        """Sectors reach the platter in any order; one that did not keeps what was there, or zeros."""
        target = bytearray(self.platter)
        for offset, data in self.unsynced:
            _put(target, offset, data)
        for start in range(0, len(target), SECTOR):
            sector = target[start : start + SECTOR]
            if sector != self.platter[start : start + SECTOR] and chance.random() < 0.5:
                _put(self.platter, start, bytes(sector))


class VirtualDisk:
    """A file system of its own. Paths are plain strings, directories end at the last slash."""

    def __init__(self, seed: int = 0, sync_seconds: float = 0.0) -> None:
        self.sync_seconds = sync_seconds
        """What a sync takes on the virtual clock; the program that syncs waits for that long."""
        self.operations = 0
        """Appends, cuts, syncs, openings and removals so far."""
        self.syncs = 0
        self.powered = True
        self.life = 0
        self._chance = random.Random(seed)
        self._cut_at: int | None = None
        self._cached: dict[str, _Inode] = {}
        self._platter: dict[str, _Inode] = {}
        self._locked: dict[str, int] = {}

    # -- what programs use --

    def make_directory(self, path: str) -> None:
        """Directories need not be made here."""

    def lock(self, directory: str) -> None:
        """`OSError` while another program has it; a crash frees it."""
        if self._locked.get(directory) == self.life:
            raise OSError(f"{directory} is in use")
        self._locked[directory] = self.life

    def unlock(self, directory: str) -> None:
        self._locked.pop(directory, None)

    def names(self, directory: str) -> list[str]:
        self._need_power()
        start = directory.rstrip("/") + "/"
        return sorted(path[len(start) :] for path in self._cached if path.startswith(start))

    def open(self, path: str) -> VirtualFile:
        """The file of this name, made when there is none."""
        self.step()
        return VirtualFile(self, self._cached.setdefault(path, _Inode()))

    def remove(self, path: str) -> None:
        self.step()
        del self._cached[path]

    def sync_directory(self, directory: str) -> None:
        self.step()
        start = directory.rstrip("/") + "/"
        self._platter = {
            **{path: inode for path, inode in self._platter.items() if not path.startswith(start)},
            **{path: inode for path, inode in self._cached.items() if path.startswith(start)},
        }

    # -- faults --

    def cut_power_at(self, operation: int | None) -> None:
        """Fail when the count of operations reaches `operation`; that one is left half done."""
        self._cut_at = operation

    def kill(self) -> None:
        """End all programs. What they wrote stays in the cache, from where a crash may still lose it."""
        self.life += 1
        self.powered = True
        self._cut_at = None

    def crash(self) -> None:
        """Lose the power, and come up again with what the platter has."""
        self.kill()
        names: dict[str, _Inode] = {}
        for path in sorted({**self._platter, **self._cached}):
            before, after = self._platter.get(path), self._cached.get(path)
            kept = before if before is after or self._chance.random() < 0.5 else after
            if kept is not None:
                names[path] = kept
        for inode in names.values():
            inode.crash(self._chance)
        self._cached, self._platter = names, dict(names)

    def flip(self, path: str, bit: int) -> None:
        """Invert one bit of a file, on the platter and in the cache."""
        inode = self._cached[path]
        for contents in (inode.cached, inode.platter):
            if bit // 8 < len(contents):
                contents[bit // 8] ^= 1 << bit % 8

    def flip_somewhere(self) -> tuple[str, int] | None:
        """Invert one bit anywhere; the file and the bit, or None on an empty disk."""
        full = [path for path in sorted(self._cached) if self._cached[path].cached]
        if not full:
            return None
        path = self._chance.choice(full)
        bit = self._chance.randrange(8 * len(self._cached[path].cached))
        self.flip(path, bit)
        return path, bit

    def image(self) -> dict[str, bytes]:
        """What programs would read, by path."""
        return {path: bytes(self._cached[path].cached) for path in sorted(self._cached)}

    @classmethod
    def of(cls, image: Mapping[str, bytes], seed: int = 0) -> VirtualDisk:
        """A disk with these files, all of them synced."""
        disk = cls(seed)
        for path, contents in image.items():
            inode = disk._cached[path] = disk._platter[path] = _Inode()
            inode.cached, inode.platter = bytearray(contents), bytearray(contents)
        return disk

    # -- for its files --

    def step(self) -> None:
        """Count an operation; `PowerCut` when there is no power, or none is left after half of this one."""
        self._need_power()
        self.operations += 1
        if self._cut_at is not None and self.operations >= self._cut_at:
            self.powered = False
            raise PowerCut("the power was cut")

    def _need_power(self) -> None:
        if not self.powered:
            raise PowerCut("the disk has no power")


class VirtualFile:
    """A file that is open until it is closed or the disk crashes."""

    def __init__(self, disk: VirtualDisk, inode: _Inode) -> None:
        self._disk = disk
        self._inode = inode
        self._life = disk.life

    def append(self, data: bytes) -> None:
        self._check()
        try:
            self._disk.step()
        except PowerCut:
            self._write(data[: len(data) // 2])
            raise
        self._write(data)

    def read(self, offset: int, size: int) -> bytes:
        """The bytes from `offset` on, at most `size` of them."""
        self._check()
        return bytes(self._inode.cached[offset : offset + size])

    def size(self) -> int:
        self._check()
        return len(self._inode.cached)

    def truncate(self, size: int) -> None:
        self._check()
        self._disk.step()
        _put(self._inode.cached, size, None)
        self._inode.unsynced.append((size, None))

    def sync(self) -> None:
        self._check()
        self._disk.step()
        self._inode.sync()
        self._disk.syncs += 1

    def close(self) -> None:
        """Nothing is synced by this."""

    def _write(self, data: bytes) -> None:
        self._inode.unsynced.append((len(self._inode.cached), bytes(data)))
        self._inode.cached += data

    def _check(self) -> None:
        if self._life != self._disk.life:
            raise PowerCut("the file was open when the disk crashed")


def _put(contents: bytearray, offset: int, data: bytes | None) -> None:
    """Write at an offset, zeros before it where there was nothing; without data, cut there."""
    if data is None:
        del contents[offset:]
        return
    if len(contents) < offset:
        contents.extend(bytes(offset - len(contents)))
    contents[offset : offset + len(data)] = data
