"""The virtual disk keeps what was synced, and anything a real disk might keep of the rest."""

from __future__ import annotations

import pytest

from overlay.virtual.disk import SECTOR, PowerCut, VirtualDisk

PATH = "/data/log"


def written(seed: int) -> VirtualDisk:
    """A disk with a synced file, and two writes behind it that are not."""
    disk = VirtualDisk(seed)
    file = disk.open(PATH)
    disk.sync_directory("/data")
    file.append(b"synced")
    file.sync()
    file.append(b"a" * SECTOR)
    file.append(b"b" * SECTOR)
    return disk


def after_crash(seed: int) -> bytes:
    disk = written(seed)
    disk.crash()
    return disk.image()[PATH]


def test_programs_read_what_they_wrote() -> None:
    disk = written(1)
    file = disk.open(PATH)
    assert file.size() == 6 + 2 * SECTOR
    assert file.read(4, 4) == b"edaa"
    file.truncate(3)
    assert disk.image() == {PATH: b"syn"}


def test_a_crash_keeps_what_was_synced_and_tears_the_rest_in_every_way() -> None:
    outcomes = [after_crash(seed) for seed in range(60)]
    assert all(outcome[:6] == b"synced" for outcome in outcomes)
    whole = b"synced" + b"a" * SECTOR + b"b" * SECTOR
    assert b"synced" in outcomes
    assert whole in outcomes
    assert any(outcome != whole[: len(outcome)] for outcome in outcomes), "no sector was skipped"
    assert any(6 < len(outcome) < len(whole) for outcome in outcomes), "no write was torn"


def test_the_same_seed_gives_the_same_crash() -> None:
    assert [after_crash(seed) for seed in range(20)] == [after_crash(seed) for seed in range(20)]


def test_a_name_that_was_not_synced_may_be_gone_with_its_content() -> None:
    kept = 0
    for seed in range(40):
        disk = VirtualDisk(seed)
        file = disk.open(PATH)
        file.append(b"synced")
        file.sync()
        disk.crash()
        assert disk.image() in ({}, {PATH: b"synced"})
        kept += PATH in disk.image()
    assert 0 < kept < 40


def test_a_removed_name_may_be_back() -> None:
    back = 0
    for seed in range(40):
        disk = written(seed)
        disk.remove(PATH)
        assert disk.names("/data") == []
        disk.crash()
        back += disk.names("/data") == ["log"]
    assert 0 < back < 40


def test_killing_programs_loses_nothing_and_ends_their_files() -> None:
    disk = written(1)
    file = disk.open(PATH)
    disk.kill()
    assert len(disk.image()[PATH]) == 6 + 2 * SECTOR
    with pytest.raises(PowerCut):
        file.append(b"more")


def test_without_power_nothing_works_until_the_crash_is_over() -> None:
    disk = written(1)
    file = disk.open(PATH)
    disk.cut_power_at(disk.operations + 2)
    file.append(b"whole")
    with pytest.raises(PowerCut):
        file.append(b"half of it")
    assert disk.image()[PATH].endswith(b"wholehalf ")
    with pytest.raises(PowerCut):
        disk.open(PATH)
    disk.crash()
    assert disk.open(PATH).read(0, 6) == b"synced"


def test_a_locked_directory_is_free_after_a_crash() -> None:
    disk = VirtualDisk()
    disk.lock("/data")
    with pytest.raises(OSError, match="in use"):
        disk.lock("/data")
    disk.crash()
    disk.lock("/data")
    disk.unlock("/data")
    disk.lock("/data")


def test_a_flipped_bit_is_flipped_for_good() -> None:
    disk = written(1)
    disk.flip(PATH, 8 * 1 + 0)
    assert disk.image()[PATH][:3] == b"sxn"
    disk.crash()
    assert disk.image()[PATH][:3] == b"sxn"
    found = disk.flip_somewhere()
    assert found is not None
    assert found[0] == PATH
    assert VirtualDisk().flip_somewhere() is None


def test_an_image_makes_the_same_disk_again() -> None:
    image = written(1).image()
    again = VirtualDisk.of(image)
    again.crash()
    assert again.image() == image
