"""The sqllogictest files in ``sql/`` hold against a real connection."""

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dbselect.doors.extension import extension_path

FILES = sorted((Path(__file__).parents[1] / "sql").glob("*.test"))
#: What DuckDB's own runner runs as well: native/community/README.md.
COMMUNITY = Path(__file__).parents[2] / "native" / "community" / "test" / "sql" / "dbselect.test"


def blocks(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """Cut a file into the kind, the statement and the expected lines of its blocks."""
    for block in re.split(r"\n\s*\n", text):
        lines = [line for line in block.strip().splitlines() if not line.startswith("#")]
        if lines:
            statement, _, expected = "\n".join(lines[1:]).partition("\n----")
            yield lines[0], statement, expected.strip("\n").splitlines()


def shown(value: object) -> str:
    if value is None:
        return "NULL"
    return str(value).lower() if isinstance(value, bool) else str(value)


def check(connection: duckdb.DuckDBPyConnection, file: Path) -> None:
    """Run the blocks of a file as DuckDB's own runner would."""
    checked = 0
    for kind, statement, expected in blocks(file.read_text()):
        if kind == "statement error":
            with pytest.raises(duckdb.Error, match="\n".join(expected)):
                connection.execute(statement).fetchall()
        elif kind == "statement ok":
            connection.execute(statement).fetchall()
        elif kind == "require dbselect":
            ((platform,),) = connection.execute("PRAGMA platform").fetchall()
            connection.execute(f"LOAD '{extension_path(platform)}'")
        elif re.fullmatch(r"query [BIRT]+", kind):
            # Compared as text, as DuckDB itself would print it.
            columns = len(kind.split()[1])
            relation = connection.sql(statement)
            assert len(relation.columns) == columns, statement
            text = relation.select("COLUMNS(*)::VARCHAR").fetchall()
            assert ["\t".join(map(shown, row)) for row in text] == expected, statement
        else:
            pytest.fail(f"{file.name} has a block '{kind}'")
        checked += 1
    assert checked > 1


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_every_block_of_the_file_holds(connection, file):
    check(connection, file)


def test_the_file_of_the_community_holds_in_a_duckdb_without_python():
    with duckdb.connect(config={"allow_unsigned_extensions": True}) as con:
        check(con, COMMUNITY)


def test_there_is_a_file_for_each_function():
    names = {"fold_of", "gram", "gram_missing", "gram_mean", "gram_impute"}
    names |= {
        "gram_patterns",
        "gram_em",
        "gram_merge",
        "gram_remove",
        "gram_check",
        "anytime_sequence",
    }
    names |= {"anytime_predict", "anytime_sequence_glm", "glm_predict", "a_optimal"}
    names |= {"key_sums", "gram_extend", "fit", "summary", "predict_available", "allocate"}
    names |= {"evaluate", "fit_glm", "glm_check", "glm_mean", "summary_glm"}
    assert {file.stem for file in FILES} == names
