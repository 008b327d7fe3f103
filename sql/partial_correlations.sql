-- partial_correlations(record, target, columns := NULL, intercept := true)
--
-- How each column goes with the target, alone and given the other columns.
--
--   record      Gram record, as gram(...) returns it
--   target      column to predict
--   columns     list of columns or globs of the model; NULL: all but the target
--   intercept   false: a model through the origin
--
-- Returns a LIST of STRUCT(column VARCHAR, correlation DOUBLE, partial DOUBLE, semipartial
-- DOUBLE), NULL where others determine the column; NULL if the record is unusable.
CREATE OR REPLACE TEMP MACRO partial_correlations(
    record, target, columns := NULL, intercept := true
) AS dbselect_partial_correlations('partial_correlations', record, target, {
    'columns': columns, 'intercept': intercept
});
