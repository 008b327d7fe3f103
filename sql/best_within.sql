-- best_within(record, target, budget, groups := NULL, costs := NULL, always := NULL,
--      ridge := 0.0, scale := true, time_limit := 10.0, intercept := true)
--
-- The model on the groups that explain most for a budget, with proof or the gap.
--
--   record      Gram record, as gram(...) returns it
--   target      column to predict
--   budget      limit on the summed cost, >= 0
--   groups      STRUCT or MAP: name -> list of columns or globs; NULL: every top-level field
--   costs       STRUCT or MAP: name -> cost > 0, in any one unit; NULL: 1 each
--   always      list of groups of every set, which count in the budget
--   ridge       >= 0, lambda on unit-variance columns
--   scale       false takes ridge on the columns as they are
--   time_limit  seconds for the search of one record, > 0
--   intercept   false for models through the origin, as in anytime_sequence
--
-- Returns STRUCT(columns VARCHAR[], groups VARCHAR[], intercept DOUBLE, coefficients
-- MAP(VARCHAR, DOUBLE), explained DOUBLE, r2 DOUBLE, spent DOUBLE, bound DOUBLE, gap DOUBLE,
-- proven BOOLEAN): no groups within the budget explain more than bound, explained and gap
-- together; NULL if the record is unusable.
CREATE OR REPLACE TEMP MACRO best_within(
    record, target, budget, groups := NULL, costs := NULL, always := NULL, ridge := 0.0,
    scale := true, time_limit := 10.0, intercept := true
) AS dbselect_proven('best_within', record, target, {
    'budget': budget, 'groups': groups, 'costs': costs, 'always': always, 'ridge': ridge,
    'scale': scale, 'time_limit': time_limit, 'intercept': intercept
});
