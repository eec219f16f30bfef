"""Spark finds the format "camcast" by this module: Spark looks for installed modules called `pyspark_*`.

Installed as the top-level module `pyspark_camcast` (see pyproject.toml).
"""

from bench.spark.source import CamcastSource as DefaultSource

__all__ = ["DefaultSource"]
