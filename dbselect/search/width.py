"""Choose between a lazy Gram, read row by row, and the whole Gram."""

from collections.abc import Sequence

from dbselect.errors import ArgumentError, SourceError, WideWarning, warn_caller
from dbselect.record.computed import computed_names
from dbselect.search.table import gram_given, table_of
from dbselect.search.wide_table import WideTable
from dbselect.sources.request import columns_of, not_computed, selected
from dbselect.spec.spec import Spec

#: Columns up to which ``gram="auto"`` makes the whole Gram: 4 GB.
MOST_COLUMNS = 10_000
#: Memory of a search on a Gram, in bytes per pair of columns.
BYTES = 40


def is_lazy(problem: Spec, patterns: Sequence[str] | None) -> bool:
    """Whether the Gram is lazy: by the option, or, with a WideWarning, for a very wide table.

    ArgumentError if the problem needs it whole; SourceError if the table can be read only once.
    """
    if problem.gram != "auto" or isinstance(problem.source, WideTable):
        return problem.gram != "full"
    if "gram" in problem._read or gram_given(problem) is not None:
        return False
    table = table_of(problem, patterns)
    columns = columns_of(table.schema)
    computed = computed_names(problem.terms.computed) if problem.terms else []
    count = len(columns) + len(computed)
    if count > MOST_COLUMNS:
        count = len(selected(columns, not_computed(patterns, problem.terms))) + len(computed)
    if count <= MOST_COLUMNS:
        return False
    size = (
        f"source has {count:,} columns, and a search on their Gram takes some "
        f"{BYTES * count**2 / 1e9:,.0f} GB"
    )
    if not isinstance(problem.target, str):
        raise ArgumentError(f"{size}, which several responses need: gram='full' makes it")
    if not problem.intercept:
        raise ArgumentError(f"{size}, which models through the origin need: gram='full' makes it")
    if not table.again:
        raise SourceError(
            f"{size}; gram='lazy' takes less and reads the rows again, but this stream can be "
            "read only once: give a table, a relation or a file, or gram='full'"
        )
    warn_caller(
        f"{size}: this one is lazy, and reads the table again for the rows of the Gram that it "
        "needs; gram='lazy' says that this is meant, gram='full' makes the Gram",
        WideWarning,
    )
    return True
