-- condition_number(record, target, columns := NULL, intercept := true)
--
-- The condition number of the columns, the intercept's among them, each of length 1 (Belsley, Kuh,
-- Welsch 1980).
--
--   record      Gram record, as gram(...) returns it
--   target      column to predict
--   columns     list of columns or globs of the model; NULL: all but the target
--   intercept   false: a model through the origin
--
-- Returns DOUBLE, infinite where columns depend on others; NULL if the record is unusable.
CREATE OR REPLACE TEMP MACRO condition_number(
    record, target, columns := NULL, intercept := true
) AS dbselect_condition_number('condition_number', record, target, {
    'columns': columns, 'intercept': intercept
});
