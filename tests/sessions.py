"""A session of Spark for tests."""

import os
import sys
from typing import Any


def session_of(master: str, **options: str) -> Any:
    """Start Spark on this machine, as quietly and as small as it goes."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master)
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "OFF",
        **options,
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
