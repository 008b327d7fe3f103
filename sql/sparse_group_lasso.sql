-- sparse_group_lasso(record, target, groups := NULL, costs := NULL, penalty := NULL,
--      criterion := 'bic', l1_ratio := 0.95, penalty_factors := NULL, adaptive := NULL,
--      n_penalties := 100, smallest := 1e-3, scale := true, intercept := true)
--
-- The model of the sparse group lasso: at a penalty, or at the one a criterion prefers.
--
--   record           Gram record, as gram(...) returns it
--   target           column to predict
--   groups           STRUCT or MAP: name -> list of columns or globs; NULL: every top-level field
--   costs            STRUCT or MAP: name -> cost > 0 of the norm of a group; NULL: 1 each
--   penalty          > 0, on columns and a target of unit variance; NULL: the one of a grid that
--                    criterion prefers
--   criterion        'aic', 'bic', 'ebic', 'gic', 'cp' or 'adjusted_r2'
--   n_penalties      of the grid, >= 2
--   smallest         in (0, 1), the last penalty of the grid as a share of the first
--   l1_ratio         0 for the group lasso to 1 for the lasso
--   penalty_factors  STRUCT or MAP: group, column or glob -> factor >= 0, 0 for what is not
--                    penalised; NULL: 1 each
--   adaptive         > 0, the power of the adaptive lasso; NULL: not adaptive
--   scale            false takes penalties on the columns as they are
--   intercept        false: models through the origin
--
-- Returns STRUCT(columns VARCHAR[], groups VARCHAR[], intercept DOUBLE, coefficients
-- MAP(VARCHAR, DOUBLE), explained DOUBLE, r2 DOUBLE, spent DOUBLE, penalty DOUBLE, df DOUBLE,
-- gap DOUBLE, violation DOUBLE): gap bounds how far the objective is from its minimum, violation
-- how far a gradient is from its optimality condition; NULL if the record is unusable.
CREATE OR REPLACE TEMP MACRO sparse_group_lasso(
    record, target, groups := NULL, costs := NULL, penalty := NULL, criterion := 'bic',
    l1_ratio := 0.95, penalty_factors := NULL, adaptive := NULL, n_penalties := 100,
    smallest := 1e-3, scale := true, intercept := true
) AS dbselect_penalised('sparse_group_lasso', record, target, {
    'groups': groups, 'costs': costs, 'penalty': penalty, 'criterion': criterion,
    'l1_ratio': l1_ratio, 'penalty_factors': penalty_factors, 'adaptive': adaptive,
    'n_penalties': n_penalties, 'smallest': smallest, 'scale': scale,
    'intercept': intercept
});
