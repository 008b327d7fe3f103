-- vif(record, target, columns := NULL, intercept := true)
--
-- By how much each column's dependence on the others inflates the variance of its coefficient.
--
--   record      Gram record, as gram(...) returns it
--   target      column to predict
--   columns     list of columns or globs of the model; NULL: all but the target
--   intercept   false: a model through the origin
--
-- Returns a LIST of STRUCT(column VARCHAR, vif DOUBLE), 1 / (1 - r2 of the column on the others);
-- infinite for columns that determine each other; NULL if the record is unusable.
CREATE OR REPLACE TEMP MACRO vif(
    record, target, columns := NULL, intercept := true
) AS dbselect_vif('vif', record, target, {
    'columns': columns, 'intercept': intercept
});
