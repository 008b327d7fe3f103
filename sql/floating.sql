-- floating(record, target, groups := NULL, costs := NULL, rule := 'fr', max_groups := NULL,
--      max_steps := NULL, ridge := 0.0, budget := NULL, always := NULL, intercept := true)
--
-- Groups added greedily; fewer are gone back to where they explain more than ever: SFFS.
--
--   record      Gram record, as gram(...) returns it
--   target      column to predict
--   groups      STRUCT or MAP: name -> list of columns or globs; NULL: every top-level field
--   costs       STRUCT or MAP: name -> cost > 0, in any one unit; NULL: 1 each
--   rule        of a forward step, as in foba
--   max_groups  end where so many groups are held, and none of them goes; NULL: no limit
--   max_steps   limit on additions and removals together; NULL: none
--   ridge       >= 0, lambda on unit-variance columns
--   budget      limit on the summed cost: only groups that still fit are added; NULL: none
--   always      list of groups taken first, which stay; NULL: none
--   intercept   false for models through the origin, as in anytime_sequence
--
-- Returns the LIST of steps of anytime_sequence, with action 'add' and 'remove'; empty if the
-- record is unusable.
CREATE OR REPLACE TEMP MACRO floating(
    record, target, groups := NULL, costs := NULL, rule := 'fr', max_groups := NULL,
    max_steps := NULL, ridge := 0.0, budget := NULL, always := NULL, intercept := true
) AS dbselect_sequence('floating', record, target, {
    'groups': groups, 'costs': costs, 'rule': rule, 'max_groups': max_groups,
    'max_steps': max_steps, 'ridge': ridge, 'budget': budget, 'always': always,
    'intercept': intercept
});
