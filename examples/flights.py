"""Find the look-ups that predict a flight's arrival delay best per millisecond.

One pass over a Parquet file gives a Gram; the order of the look-ups, the model at any budget
and the answer to "what if we ask before departure?" come from it without reading again. The
same is then done in SQL, for each airport of New York.
"""

from itertools import chain
from time import perf_counter

from flights_data import COSTS, GROUPS, PATH, TARGET
from flights_data import main as write_data

import dbselect as ds

SEQUENCES = """\
CREATE TEMP TABLE sequences AS
WITH grams AS (
    SELECT coalesce(origin, 'all') AS airport,
           gram(struct_pack(*COLUMNS(* EXCLUDE (origin, dest, flight, departs)))) AS g
    FROM flights GROUP BY ROLLUP (origin)
)
SELECT airport, g.rows AS used,
       anytime_sequence(g, 'arr_delay', groups := $groups, costs := $costs) AS sequence
FROM grams
"""

ORDERS = """
SELECT airport, used, sequence[-1].r2, [step."group" FOR step IN sequence[2:]]
FROM sequences ORDER BY airport = 'all', airport
"""

# A flight whose plane has no record.
PREDICT = """
SELECT budget, unnest(anytime_predict(sequence, f, budget := budget)), arr_delay
FROM flights f JOIN sequences ON airport = origin, unnest([0.5, 2, 40]) AS t(budget)
WHERE flight = $flight AND departs = $departs
ORDER BY budget
"""


def show(sequence: ds.results.Sequence, spread: float) -> None:
    """Print one line a step; the error is the standard deviation of the residuals."""
    print(f"{'look-up':12}{'cost, ms':>10}{'spent, ms':>11}{'r2':>9}{'error, min':>12}")
    for step in sequence.steps.iter_rows(named=True):
        error = spread * (1 - step["r2"]) ** 0.5
        name = step["group"] or "(mean only)"
        print(f"{name:12}{step['cost']:10.1f}{step['spent']:11.1f}{step['r2']:9.4f}{error:12.1f}")


def main() -> None:
    """Print the sequence, two of its models, and the same through SQL by airport."""
    if not PATH.exists():
        write_data()

    start = perf_counter()
    gram = ds.gram(PATH, columns=[TARGET, *chain(*GROUPS.values())])
    seconds = perf_counter() - start
    print(f"One pass over {PATH.name}: {gram.rows:,} flights used, {gram.skipped:,} skipped")
    print(f"(a value is missing), {len(gram.columns)} columns, {seconds:.2f} s")

    at = gram.columns.index(TARGET)
    spread = (gram.comoment[at, at] / gram.weight) ** 0.5
    sequence = ds.anytime_sequence(gram, TARGET, groups=GROUPS, costs=COSTS)
    print("\nArrival delay: which look-up next, by gain per millisecond")
    show(sequence, spread)

    print("\nThe same Gram before departure, when its delay is not known yet")
    known = [name for name in GROUPS if name != "departure"]
    before = ds.anytime_sequence(
        gram,
        TARGET,
        groups={name: GROUPS[name] for name in known},
        costs={name: COSTS[name] for name in known},
    )
    show(before, spread)

    con = ds.connect()
    con.read_parquet(str(PATH)).create_view("flights")
    con.execute(SEQUENCES, {"groups": GROUPS, "costs": COSTS})
    rows = con.sql(ORDERS).fetchall()
    print("\nThe same in SQL, for each airport")
    print(f"{'airport':9}{'flights used':>13}{'r2':>9}  order")
    for airport, used, r2, order in rows:
        print(f"{airport:9}{used:13,}{r2:9.4f}  {', '.join(order)}")
    if rows[-1][3] != sequence.steps["group"].to_list()[1:]:
        raise SystemExit("SQL and Python disagree on the order of the whole table")
    print("SQL and Python give the whole table the same order.")

    flight, departs = "AA1999", "2013-06-07 17:29"
    answers = con.execute(PREDICT, {"flight": flight, "departs": departs}).fetchall()
    print(f"\n{flight} from Newark at {departs}, in rain, its plane without a record")
    print(f"{'budget, ms':>10}{'spent, ms':>11}{'predicted, min':>16}  next look-up")
    for budget, predicted, _, spent, following, _ in answers:
        print(f"{budget:10.1f}{spent:11.1f}{predicted:16.1f}  {following}")
    print(f"It arrived {answers[0][-1]} min late.")


if __name__ == "__main__":
    main()
