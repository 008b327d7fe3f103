-- a_optimal(key, row, k, beta2 := 1.0, sigma2 := 1.0, scale_rows := false)
--
-- The k rows to observe for the most precise coefficients of a linear model: the Bayesian
-- A-optimal design, by the greedy method. An aggregate: it works under GROUP BY.
--
--   key         identifies a row; of rows with equal gain, the one with the lowest key is taken
--   row         STRUCT of numbers; rows with a NULL or NaN are not candidates
--   k           >= 1, rows to choose
--   beta2       > 0, prior precision of each coefficient
--   sigma2      > 0, variance of the noise
--   scale_rows  whether each row is scaled to norm 1
--
-- Returns a LIST of keys, in the order of selection, fewer than k if there are fewer candidates;
-- NULL without rows. All rows of a group are held in memory and sorted by key, which takes up to
-- 90 bytes per value. For more rows, dbselect.a_optimal in Python reads in blocks. DuckDB takes
-- no FILTER on a macro: filter the rows before.
CREATE OR REPLACE TEMP MACRO a_optimal(
    key, "row", k, beta2 := 1.0, sigma2 := 1.0, scale_rows := false
) AS list_transform(
    list_select(
        list({'key': key, 'row': "row"} ORDER BY key),
        dbselect_a_optimal(list({'key': key, 'row': "row"} ORDER BY key), k, beta2, sigma2, scale_rows)
    ),
    lambda candidate: candidate.key
);
