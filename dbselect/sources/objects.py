"""Files on an object store, by obstore; credentials are of the environment (``AWS_...``)."""

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
#: Requests at a time.
SIDE_BY_SIDE = 32
#: Names of a folder that are looked at to know what it is: one answer of a server.
SOME = 1000


def is_url(path: str | Path) -> bool:
    """Whether a path is an address on another machine."""
    return "://" in str(path)


def is_listed(path: str) -> bool:
    """Whether an address is on an object store."""
    return path.lower().startswith(SCHEMES)


def is_installed() -> bool:
    """Whether obstore is."""
    return find_spec("obstore") is not None


def versions_below(url: str) -> dict[str, str]:
    """Return the files below an address, by their names there, with sizes and ETags."""
    with reached(url) as (obstore, store):
        found = (one for chunk in obstore.list(store, chunk_size=SOME) for one in chunk)
        return {one["path"]: _version(one) for one in found}


def some_below(url: str) -> list[str]:
    """Return the first names of files below an address; as `versions_below`."""
    with reached(url) as (obstore, store):
        found = (one for chunk in obstore.list(store, chunk_size=SOME) for one in chunk)
        return [one["path"] for one in islice(found, SOME)]


def version_at(url: str) -> str | None:
    """Return size and ETag of one file, None if there is none."""
    folder, _, name = url.rpartition("/")
    with reached(folder) as (obstore, store):
        try:
            return _version(obstore.head(store, name))
        except FileNotFoundError:
            return None


def fetch(url: str, names: Iterable[str], folder: str) -> None:
    """Copy files below an address into a folder, side by side, but those that cannot be read."""
    with reached(url) as (obstore, store), ThreadPoolExecutor(SIDE_BY_SIDE) as pool:

        def copy(name: str) -> None:
            path = Path(folder, name)
            with suppress(obstore.exceptions.BaseError, OSError):
                content = obstore.get(store, name).bytes()
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)

        list(pool.map(copy, names))


def _version(told: Mapping[str, Any]) -> str:
    """Return the size of a file and what changes with its bytes."""
    tag = told["e_tag"] or f"at {told['last_modified']}"
    return f"{told['size']} bytes, {tag}"


@contextmanager
def reached(url: str) -> Iterator[tuple[Any, Any]]:
    """Open what is below an address."""
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
    """Return what an engine says of an error, without what it prints for its own developers."""
    return str(error).partition("Debug source:")[0].strip()
