"""Files on an object store, by obstore; credentials come from the environment (``AWS_...``)."""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

from dbselect.errors import ArgumentError, SourceError

#: Addresses of the object stores that obstore lists.
SCHEMES = ("s3://", "s3a://", "gs://", "az://", "adl://", "abfs://", "abfss://", "azure://")
#: A server that does not answer is an error after some seconds, not minutes.
_RETRIES: Any = {"max_retries": 3, "retry_timeout": timedelta(seconds=15)}
#: Concurrent requests.
SIDE_BY_SIDE = 32
#: Names listed to find out what a folder is: one response of a server.
SOME = 1000


def is_url(path: str | Path) -> bool:
    """Whether a path is an address on another machine."""
    return "://" in str(path)


def is_listed(path: str) -> bool:
    """Whether an address is on an object store."""
    return path.lower().startswith(SCHEMES)


def is_installed() -> bool:
    """Whether obstore is installed."""
    return find_spec("obstore") is not None


def versions_below(url: str) -> dict[str, str]:
    """Map the files below an address, by relative name, to their versions."""
    with reached(url) as (obstore, store):
        files = (file for chunk in obstore.list(store, chunk_size=SOME) for file in chunk)
        return {file["path"]: _version(file) for file in files}


def some_below(url: str) -> list[str]:
    """Return the first names of files below an address."""
    with reached(url) as (obstore, store):
        files = (file for chunk in obstore.list(store, chunk_size=SOME) for file in chunk)
        return [file["path"] for file in islice(files, SOME)]


def version_at(url: str) -> str | None:
    """Return the version of one file; None if it does not exist."""
    folder, _, name = url.rpartition("/")
    with reached(folder) as (obstore, store):
        try:
            return _version(obstore.head(store, name))
        except FileNotFoundError:
            return None


def fetch(url: str, names: Iterable[str], folder: str) -> None:
    """Copy files below an address into a folder, concurrently; skip files that cannot be read."""
    with reached(url) as (obstore, store), ThreadPoolExecutor(SIDE_BY_SIDE) as pool:

        def copy(name: str) -> None:
            path = Path(folder, name)
            with suppress(obstore.exceptions.BaseError, OSError):
                content = obstore.get(store, name).bytes()
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)

        list(pool.map(copy, names))


def _version(metadata: Mapping[str, Any]) -> str:
    """Return the version of a file: its size, and its ETag or else its time of modification."""
    tag = metadata["e_tag"] or f"at {metadata['last_modified']}"
    return f"{metadata['size']} bytes, {tag}"


@contextmanager
def reached(url: str) -> Iterator[tuple[Any, Any]]:
    """Open the store below an address; report its errors as `SourceError`."""
    try:
        import obstore
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ImportError:
        raise ArgumentError(
            f"'{url}' is on an object store, whose files are listed by obstore: "
            "pip install 'dbselect[cloud]'"
        ) from None
    try:
        yield obstore, from_url(url, retry_config=_RETRIES)
    except (FileNotFoundError, FileExistsError):
        raise
    except (BaseError, OSError) as error:
        raise SourceError(f"cannot reach '{url}': {in_short(error)}") from error


def in_short(error: BaseException) -> str:
    """Return the message of an error without its debug output."""
    return str(error).partition("Debug source:")[0].strip()
