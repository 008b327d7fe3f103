-- sght(record, target, groups, max_columns, max_groups, costs := NULL, variant := 'ista',
--      start := 'ridge', refit := true, polish := true, tol := 1e-8, max_iter := 500,
--      intercept := true)
--
-- A model on at most max_columns columns in at most max_groups groups (SGHT).
--
--   record       Gram record, as gram(...) returns it
--   target       column to predict
--   groups       STRUCT or MAP: name -> list of columns or globs; NULL: every top-level field
--   max_columns  most columns, from 1 on
--   max_groups   most groups, from 1 on
--   costs        STRUCT or MAP: name -> cost > 0, in any one unit; NULL: 1 each
--   variant      'ista', 'ista-l', 'fista' or 'fista-c'
--   start        'ridge' or 'zero'
--   refit        whether the kept columns are fitted again by least squares
--   polish       whether columns are exchanged until no exchange helps, where that is cheap
--   tol          stop when a step changes the objective by at most this share
--   max_iter     most steps
--   intercept    false for models through the origin, as in anytime_sequence
--
-- Returns STRUCT(columns VARCHAR[], groups VARCHAR[], intercept DOUBLE, coefficients
-- MAP(VARCHAR, DOUBLE), explained DOUBLE, r2 DOUBLE, spent DOUBLE);
-- NULL if the record is unusable.
CREATE OR REPLACE TEMP MACRO sght(
    record, target, groups, max_columns, max_groups, costs := NULL, variant := 'ista',
    start := 'ridge', refit := true, polish := true, tol := 1e-8, max_iter := 500,
    intercept := true
) AS dbselect_model('sght', record, target, {
    'groups': groups, 'costs': costs, 'max_columns': max_columns, 'max_groups': max_groups,
    'variant': variant, 'start': start, 'refit': refit, 'polish': polish,
    'tol': tol, 'max_iter': max_iter, 'intercept': intercept
});
