"""The page on clusters: what it shows of each engine gives the Gram of one pass."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dbselect as ds

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guides" / "sum-on-a-cluster.md").read_text()
WANTED = ["arr_delay", "dep_delay", "distance", "seats"]

pytestmark = [pytest.mark.slow, pytest.mark.far]


def shown(section: str) -> list[str]:
    """Return the code of a section, after that of all examples."""
    first, *sections = PAGE.split("\n## ")
    (found,) = [one for one in sections if one.startswith(section)]
    return [code for text in (first, found) for code in re.findall(r"```py\n(.*?)```", text, re.S)]


@pytest.mark.parametrize(
    ("section", "package"),
    [("Spark", "pyspark"), ("Dask", "dask.dataframe"), ("Ray", "ray.data"), ("Daft", "daft")],
)
def test_what_the_page_shows_gives_the_gram_of_one_pass(section, package, tmp_path, flights_file):
    pytest.importorskip(package, reason=f"{package} is not installed")
    if section == "Spark" and shutil.which("java") is None:
        pytest.skip("Java is not installed, which Spark needs")
    (tmp_path / "gram.py").write_text(
        "\n".join([*shown(section), f"gram.write_parquet({str(tmp_path / 'gram.parquet')!r})"])
    )
    command = [sys.executable, "-W", "ignore", tmp_path / "gram.py"]
    env_python = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **env_python}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found, expected = ds.Gram.read_parquet(tmp_path / "gram.parquet"), ds.gram(flights_file, WANTED)
    assert found.columns == expected.columns
    assert (found.rows, found.skipped) == (expected.rows, expected.skipped)
    np.testing.assert_allclose(found.correlation(), expected.correlation(), rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-12)
