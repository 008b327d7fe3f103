-- backward(record, target, options := NULL, groups := NULL, costs := NULL, backward := NULL,
--          max_steps := NULL, ridge := NULL, intercept := NULL, budget := NULL,
--          always := NULL)
--
-- Backward elimination: all groups, then without the least useful one, again and again.
--
--   record      Gram record, as gram(...) returns it
--   target      column to predict
--   options     STRUCT of what follows, by name, as the native function takes it
--   groups      STRUCT or MAP: name -> list of columns or globs; NULL: every top-level field
--   costs       STRUCT or MAP: name -> cost > 0, in any one unit; NULL: 1 each
--   backward    least useful by 'loss' (exact; NULL) or by 'coefficient'
--   max_steps   limit on the removals
--   ridge       >= 0, lambda on unit-variance columns; NULL: 0
--   intercept   false for models through the origin, as in anytime_sequence
--   budget      removal ends as soon as what is held costs no more
--   always      list of groups that stay
--
-- Returns the LIST of steps of anytime_sequence: every group added, then removed; empty if
-- the record is unusable, or if columns depend linearly on others, by 'coefficient' and without
-- a ridge. By 'loss' a group that others stand in for loses nothing and is removed first.
CREATE OR REPLACE TEMP MACRO backward(
    record, target, options := NULL, groups := NULL, costs := NULL, backward := NULL,
    max_steps := NULL, ridge := NULL, intercept := NULL, budget := NULL, always := NULL
) AS system.main.backward(record, target, options, {
    'groups': groups, 'costs': costs, 'backward': backward, 'max_steps': max_steps,
    'ridge': ridge, 'intercept': intercept, 'budget': budget, 'always': always
});
