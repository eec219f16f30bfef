"""One Spark session for the tests of this folder, started as on a machine without Java."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FEW_ROWS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Queries of a few rows each: to compile them, or to plan them again, takes longer than to run them."""


def path_without_java(directory: Path) -> Path:
    """One directory with everything on the PATH but Java."""
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).glob("*"):
            link = directory / program.name
            if program.name != "java" and not link.is_symlink():
                link.symlink_to(program)
    return directory


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("JAVA_HOME", raising=False)
        patch.setenv("PATH", str(path_without_java(tmp_path_factory.mktemp("bin"))))
        with spark_session(tmp_path_factory.mktemp("spark"), "local[2]", FEW_ROWS) as session:
            yield session
