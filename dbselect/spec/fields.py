"""Table of the problem fields other than source, target, groups and costs."""

import numbers
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypedDict

from dbselect.families import Family
from dbselect.options.conditions import Limits, Needs, OneOf, Shared
from dbselect.options.kinds import (
    COLUMN,
    COUNT,
    FLAG,
    GROUP_NAMES,
    NOT_NEGATIVE,
    SEED,
    TEXT,
    Kind,
    one_of,
)
from dbselect.options.names import FamilyName, GramName
from dbselect.options.option import Option

if TYPE_CHECKING:
    from dbselect.record.terms import Terms
    from dbselect.sources.request import NullPolicy

#: A value of a column of text, of booleans or of numbers.
Level: TypeAlias = str | bool | float

_LEVEL = Kind("be text, True, False or a number",
              lambda v: isinstance(v, str | bool | numbers.Real), "VARCHAR", str)  # fmt: skip
_TERMS = Kind("come from dbselect.terms", lambda v: type(v).__name__ == "Terms")
#: Checked by `check_policies`, not here.
_BY_NAME, _LISTS = (lambda v: isinstance(v, Mapping)), (lambda v: isinstance(v, list | tuple))
_SHARED = Kind("map names to (cost, groups)", _BY_NAME)
_NEEDS = Kind("map groups to the groups that must be bought with them", _BY_NAME)
_ONE_OF = Kind("be a list of lists of group names", _LISTS)
_LIMITS = Kind("map units to (costs by group, limit, 'sum' or 'max')", _BY_NAME)
_POLICIES = Kind("be a null policy", lambda _: True, None, str)


class ProblemOptions(TypedDict, total=False):
    """The keyword fields of a `Problem`, which every call takes."""

    family: Annotated[
        Family | FamilyName | str,
        Option("gaussian", TEXT, "distribution and link of the target, as text or an object of "
               "`dbselect.families`: ``\"gaussian\"``, the linear model of one Gram; "
               "``\"binomial\"``, ``\"poisson\"``, ``\"gamma(inverse)\"``, ``\"multinomial\"`` and "
               "others, whose table is read again and again", in_engines=False),
    ]  # fmt: skip
    weight: Annotated[
        str | None, Option(None, COLUMN, "column of row weights, >= 0", in_engines=False)
    ]
    offset: Annotated[
        str | None,
        Option(None, COLUMN, "column that is added to the predictor with coefficient 1",
               in_engines=False),
    ]  # fmt: skip
    exposure: Annotated[
        str | None,
        Option(None, COLUMN, "column of numbers > 0 whose logarithm is added to the predictor, of "
               "families with the link log", in_engines=False),
    ]  # fmt: skip
    positive: Annotated[
        Level | None,
        Option(None, _LEVEL, "of a binomial target of two texts, booleans or numbers, the one that "
               "counts as 1; default: of texts the second in order", in_engines=False),
    ]  # fmt: skip
    intercept: Annotated[
        bool,
        Option(True, FLAG, "False for models through the origin: shares are then of the sum of "
               "squares about 0, or of the deviance of the predictor 0"),
    ]  # fmt: skip
    ridge: Annotated[
        float,
        Option(0.0, NOT_NEGATIVE, "lambda >= 0 on unit-variance columns; the intercept is not "
               "penalised"),
    ]  # fmt: skip
    scale: Annotated[
        bool, Option(True, FLAG, "False takes `ridge` and penalties on the columns as they are")
    ]
    null_policy: Annotated[
        "NullPolicy",
        Option("skip", _POLICIES, "what happens to missing values while a table is read: "
               "``\"skip\"`` leaves the row out, ``\"mean\"`` fills the mean, ``\"indicator\"`` 0 "
               "and a column that is 1 there, ``\"error\"`` refuses, ``\"em\"`` completes the Gram "
               "under normality; or column or glob -> policy. Rows without the target are left out "
               "under every policy but em", in_engines=False),
    ]  # fmt: skip
    always: Annotated[
        Sequence[str], Option((), GROUP_NAMES, "groups taken first, in the order given")
    ]
    rows: Annotated[
        int | None,
        Option(None, COUNT, "rows of the table to use, drawn by a seeded hash; default: all",
               in_engines=False),
    ]  # fmt: skip
    seed: Annotated[int, Option(0, SEED, "of all that is drawn, 0 to 2^63 - 1")]
    gram: Annotated[
        GramName,
        Option("auto", one_of(GramName), "``\"full\"`` makes the whole Gram matrix; ``\"lazy\"`` "
               "reads the rows of it that a search asks for, in some scans, of a table too wide "
               "for the whole; ``\"auto\"`` is lazy above 10,000 columns", in_engines=False),
    ]  # fmt: skip
    terms: Annotated[
        "Terms | None",
        Option(None, _TERMS, "categories and curves of columns, from `dbselect.terms`; default: "
               "columns of text are categories", in_engines=False),
    ]  # fmt: skip
    shared: Annotated[
        Shared | None,
        Option(None, _SHARED, "name -> (cost, groups): a set-up that the first of these groups "
               "pays, once; what a group costs on its own may then be 0"),
    ]  # fmt: skip
    needs: Annotated[
        Needs | None,
        Option(None, _NEEDS, "group -> groups that must be bought with it"),
    ]
    one_of: Annotated[
        OneOf | None, Option(None, _ONE_OF, "lists of groups, of each at most one is bought")
    ]
    limits: Annotated[
        Limits | None,
        Option(None, _LIMITS, "unit -> (costs by group, limit, ``\"sum\"`` or ``\"max\"``): "
               "further units beside costs and budget; ``\"max\"`` for what runs in parallel"),
    ]  # fmt: skip


#: Docstring lines of the first parameters of every call.
FIRST = (
    "source : table of any engine (path, glob, frame, relation, Arrow stream), or a Gram, its "
    "record, or a file of it",
    "target : column to predict, or a formula, ``\"y ~ a + C(k, ref='b') + a:b + bs(x, 4)\"``, "
    "whose terms are then the groups; a list of responses where the method takes several",
    "groups : name -> columns or globs that are bought together; default: every top-level field "
    "but the target",
    "costs : name -> cost > 0, in any one unit; default: 1 each",
)
#: Docstring lines of calls that run another method.
METHOD = (
    "method : name of the method, or its call (`dbselect.foba`), or a function of a problem and "
    "options that returns a result"
)
GRID = (
    "grid : option -> values, of which all combinations are tried; or a list of options to try; "
    "default: only `options`"
)
OF_METHOD = "options : of the method"
