-- f_test(record, target, tested := NULL, columns := NULL, intercept := true)
--
-- The F test that the coefficients of some columns of a least-squares model are all 0.
--
--   record      Gram record, as gram(...) returns it
--   target      column to predict
--   tested      list of columns or globs among them; NULL: all, the test of the model
--   columns     list of columns or globs of the model; NULL: all but the target
--   intercept   false: a model through the origin
--
-- Returns STRUCT(df BIGINT, df_residual BIGINT, statistic DOUBLE, p_value DOUBLE), the last two
-- NULL where the test is not defined; NULL if the record is unusable.
CREATE OR REPLACE TEMP MACRO f_test(
    record, target, tested := NULL, columns := NULL, intercept := true
) AS dbselect_f_test('f_test', record, target, {
    'tested': tested, 'columns': columns, 'intercept': intercept
});
