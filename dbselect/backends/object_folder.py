"""A store in a folder of an object store, which lets one of two writers through."""

from contextlib import suppress
from io import BytesIO

import polars as pl

from dbselect.backends.folder import Records
from dbselect.sources.objects import reached, versions_below


class ObjectFolder(Records):
    """Records at an address of an object store."""

    def __init__(self, url: str) -> None:
        super().__init__(url.rstrip("/"))

    def _names(self) -> list[str]:
        return list(versions_below(self._shown))

    def _content(self, name: str) -> bytes:
        with reached(self._shown) as (obstore, store):
            return bytes(obstore.get(store, name).bytes())

    def _put(self, name: str, frame: pl.DataFrame) -> None:
        frame.write_parquet(file := BytesIO())
        with reached(self._shown) as (obstore, store):
            obstore.put(store, name, file.getvalue())

    def _claim(self, name: str, text: str) -> None:
        with reached(self._shown) as (obstore, store):
            try:
                obstore.put(store, name, text.encode(), mode="create")
            except obstore.exceptions.AlreadyExistsError as error:
                raise FileExistsError(str(error)) from None

    def _remove(self, name: str) -> None:
        with reached(self._shown) as (obstore, store), suppress(FileNotFoundError):
            obstore.delete(store, name)
