-- foba(record, target, options := NULL, groups := NULL, costs := NULL, epsilon := 0.0,
--      nu := 0.5, rule := 'fr', backward := 'loss', max_steps := NULL, ridge := 0.0,
--      budget := NULL, always := NULL)
--
-- Groups added greedily, and given back where later ones made them dispensable.
--
--   record      Gram record, as gram(...) returns it
--   target      column to predict
--   options     STRUCT of what follows, by name, as the native function takes it
--   groups      STRUCT or MAP: name -> list of columns or globs; NULL: every top-level field
--   costs       STRUCT or MAP: name -> cost > 0, in any one unit; NULL: 1 each
--   epsilon     >= 0, share of the target's variance that a group must gain
--   nu          in (0, 1), share of a gain that a removal may lose
--   rule        as in anytime_sequence, but 'doubling'
--   backward    least useful by 'loss' (exact) or by 'coefficient'
--   max_steps   limit on additions and removals together
--   ridge       >= 0, lambda on unit-variance columns
--   budget      limit on the summed cost: only groups that still fit are added
--   always      list of groups taken first, which stay
--
-- Returns the LIST of steps of anytime_sequence, with action 'add' and 'remove'; empty if
-- the record is unusable: gram_check says why.
CREATE OR REPLACE TEMP MACRO foba(
    record, target, options := NULL, groups := NULL, costs := NULL, epsilon := 0.0, nu := 0.5,
    rule := 'fr', backward := 'loss', max_steps := NULL, ridge := 0.0, budget := NULL, always := NULL
) AS dbselect_sequence('foba', record, target, {
    'options': options, 'groups': groups, 'costs': costs, 'epsilon': epsilon, 'nu': nu,
    'rule': rule, 'backward': backward, 'max_steps': max_steps, 'ridge': ridge, 'budget': budget,
    'always': always
});
