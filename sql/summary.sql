-- summary(record, target, columns := NULL, options := NULL, intercept := NULL, level := NULL)
--
-- The coefficients of fit(record, target, columns) with standard errors, tests and intervals.
--
--   record      Gram record, as gram(...) returns it
--   target      column to predict
--   columns     LIST of names and globs; NULL: every column but the target
--   options     STRUCT of what follows, by name, as the native function takes it
--   intercept   false for a model through the origin; NULL: true
--   level       probability with which low and high hold the coefficient, in (0, 1); NULL: 0.95
--
-- Returns a LIST of STRUCT(term VARCHAR, estimate DOUBLE, std_error DOUBLE, statistic DOUBLE,
-- p_value DOUBLE, standardized DOUBLE, low DOUBLE, high DOUBLE), '(intercept)' first, then the
-- columns: statistic is estimate / std_error, p_value two-sided by Student's t with n - rank
-- degrees of freedom, where n is the number of rows, also where they have weights; standardized
-- the estimate in deviations of the target for one of the column. NULL for aliased columns, and
-- where n is no more than the rank. p-values hold where other rows, or nobody, chose the columns.
-- NULL if the record is unusable: gram_check says why.
--
--   SELECT region, unnest(summary(gram(t), 'y'), recursive := true) FROM t GROUP BY region
CREATE OR REPLACE TEMP MACRO summary(
    record, target, columns := NULL, options := NULL, intercept := NULL, level := NULL
) AS system.main.summary(record, target, columns, options, {
    'intercept': intercept, 'level': level
});
