"""What Java and the executors are told of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.spark.session import java_environment


@pytest.mark.parametrize(
    ("master", "address"),
    [
        ("local[2]", "127.0.0.1"),
        ("spark://127.0.0.1:7077", "127.0.0.1"),
        ("spark://localhost:7077", "127.0.0.1"),
        ("spark://10.0.0.7:7077", None),
        ("spark://localhost:7077,far.example:7077", None),
        ("yarn", None),
        ("k8s://https://far.example:443", None),
    ],
)
def test_only_those_on_this_machine_are_told_to_call_loopback(
    master: str, address: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    assert java_environment(tmp_path, master).get("SPARK_LOCAL_IP") == address


def test_an_address_that_the_user_has_set_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.0.0.1")
    assert "SPARK_LOCAL_IP" not in java_environment(tmp_path, "local[2]")
