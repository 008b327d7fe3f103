"""``dbselect merge``: merge Gram records."""

from typing import TYPE_CHECKING

from dbselect.doors.cli.command import SEVERAL, Command, Options, Parser
from dbselect.doors.cli.gram import give_gram, give_records
from dbselect.doors.cli.out import GRAMS, NESTED, RECORDS, check_ending
from dbselect.errors import RecordError, unknown

if TYPE_CHECKING:
    import polars as pl


def _add(parser: Parser) -> None:
    parser.add_argument("records", nargs="+", help="files that 'gram' wrote, - from a pipe")
    parser.add_flags({"by": "keys: a record for each is left"}, **SEVERAL)
    parser.add_max_skipped()
    parser.add_out("the record, or the table of records", GRAMS, required=True)


def _run(options: Options) -> None:
    from dbselect.doors.cli.stored import source_of
    from dbselect.sources.open import stored_gram

    if "by" in options:
        _merge_by(options)
        return
    check_ending(options.out, RECORDS)
    for path in options.records:
        if path != "-" and stored_gram(path) is None:
            raise RecordError(f"'{path}' has no Gram records, which 'dbselect gram' writes")
    gram = stored_gram([source_of(path) for path in options.records])
    if gram is None:
        raise RecordError(f"{options.records} have no Gram records")
    give_gram(options, gram)


def _merge_by(options: Options) -> None:
    import polars as pl

    check_ending(options.out, NESTED)
    frames = [_records_of(path, options.by) for path in options.records]
    merged = (
        pl.concat(frames, how="vertical_relaxed")
        .group_by(options.by, maintain_order=True)
        .agg(pl.col("gram").dbselect.merge())  # type: ignore[attr-defined]
        .sort(options.by, nulls_last=True)
    )
    give_records(options, merged)


def _records_of(path: str, by: list[str]) -> "pl.DataFrame":
    import polars as pl

    from dbselect.record.files import check_digest
    from dbselect.record.gram import RECORD_DTYPE
    from dbselect.sources.engines.polars import from_path
    from dbselect.sources.open import collected

    frame = from_path(path).frame
    check_digest(path, "records")
    names = frame.collect_schema().names()
    for name in [*by, "gram"]:
        if name not in names:
            raise RecordError(f"'{path}' has {unknown('column', name, names)}")
    return collected(frame.select(*by, pl.col("gram").cast(RECORD_DTYPE)))


COMMAND = Command(_add, _run)
