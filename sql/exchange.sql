-- exchange(record, target, k, groups := NULL, costs := NULL, start := NULL, budget := NULL,
--          always := NULL, intercept := true)
--
-- k groups greedily, then one exchanged for another until none of that helps.
--
--   record      Gram record, as gram(...) returns it
--   target      column to predict
--   k           most groups
--   groups      STRUCT or MAP: name -> list of columns or globs; NULL: every top-level field
--   costs       STRUCT or MAP: name -> cost > 0, in any one unit; NULL: 1 each
--   start       list of groups to begin with, which may be exchanged; NULL: none
--   budget      limit on the summed cost; NULL: none
--   always      list of groups that stay; NULL: none
--   intercept   false for models through the origin, as in anytime_sequence
--
-- Returns STRUCT(columns VARCHAR[], groups VARCHAR[], intercept DOUBLE, coefficients
-- MAP(VARCHAR, DOUBLE), explained DOUBLE, r2 DOUBLE, spent DOUBLE);
-- NULL if the record is unusable.
CREATE OR REPLACE TEMP MACRO exchange(
    record, target, k, groups := NULL, costs := NULL, start := NULL, budget := NULL,
    always := NULL, intercept := true
) AS dbselect_model('exchange', record, target, {
    'k': k, 'groups': groups, 'costs': costs, 'start': start, 'budget': budget, 'always': always,
    'intercept': intercept
});
