"""A store in a folder of an object store, which lets one of two writers through."""

from io import BytesIO

import polars as pl

from dbselect.backends.folder import Records
from dbselect.sources.objects import get, put, put_new, remove, versions_below


class ObjectFolder(Records):
    """Records at an address of an object store.

    Parameters
    ----------
    url : ``s3://bucket/stats``, ``gs://...``, ``az://...``
    """

    def __init__(self, url: str) -> None:
        super().__init__(url.rstrip("/"))

    def _names(self) -> list[str]:
        return list(versions_below(self._shown))

    def _text(self, name: str) -> str:
        return get(self._shown, name).decode()

    def _frame(self, name: str) -> pl.DataFrame:
        return pl.read_parquet(BytesIO(get(self._shown, name)), hive_partitioning=False)

    def _put(self, name: str, frame: pl.DataFrame) -> None:
        frame.write_parquet(file := BytesIO())
        put(self._shown, name, file.getvalue())

    def _claim(self, name: str, text: str) -> None:
        put_new(self._shown, name, text.encode())

    def _remove(self, name: str) -> None:
        remove(self._shown, name)
