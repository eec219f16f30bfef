"""Small files such as a page, at a path of this machine or at a URI, by Hadoop's file systems."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bench.spark.session import is_connect
from bench.spark.start import SparkError, reason
from bench.store import is_uri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def write_text(spark: SparkSession, place: str, text: str) -> None:
    """Write a file, in place of what is there; `SparkError` where that cannot be."""
    if not is_uri(place):
        path = Path(place)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    if is_connect(spark):
        raise SparkError(
            f"{place} cannot be written through Spark Connect, which writes tables only: name a path of "
            "this machine, or use --master"
        )
    from py4j.protocol import Py4JJavaError

    java = spark.sparkContext._jvm
    assert java is not None
    path_class = java.org.apache.hadoop.fs.Path
    try:
        target = path_class(place)
        files = target.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
        stream = files.create(target, True)
        stream.write(bytearray(text.encode()))
        stream.close()
    except Py4JJavaError as error:
        told = reason(str(error)) or str(error).splitlines()[0]
        raise SparkError(f"{place} cannot be written: {told}") from None
