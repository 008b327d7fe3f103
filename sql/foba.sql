-- foba(record, target, options := NULL, groups := NULL, costs := NULL, epsilon := NULL,
--      nu := NULL, rule := NULL, backward := NULL, max_steps := NULL, ridge := NULL,
--      intercept := NULL, budget := NULL, always := NULL)
--
-- Groups added greedily, and given back where later ones made them dispensable.
--
--   record      Gram record, as gram(...) returns it
--   target      column to predict
--   options     STRUCT of what follows, by name, as the native function takes it
--   groups      STRUCT or MAP: name -> list of columns or globs; NULL: every top-level field
--   costs       STRUCT or MAP: name -> cost > 0, in any one unit; NULL: 1 each
--   epsilon     >= 0, share of the target's variance that a group must gain; NULL: 0
--   nu          in (0, 1), share of a gain that a removal may lose; NULL: 0.5
--   rule        as in anytime_sequence, but 'doubling'; NULL: 'fr'
--   backward    least useful by 'loss' (exact; NULL) or by 'coefficient'
--   max_steps   limit on additions and removals together
--   ridge       >= 0, lambda on unit-variance columns; NULL: 0
--   intercept   false for models through the origin, as in anytime_sequence
--   budget      limit on the summed cost: only groups that still fit are added
--   always      list of groups taken first, which stay
--
-- Returns the LIST of steps of anytime_sequence, with action 'add' and 'remove'; empty if
-- the record is unusable: gram_check says why.
--
-- The function of the extension answers, but for a rule that only Python has.
CREATE OR REPLACE TEMP MACRO foba(
    record, target, options := NULL, groups := NULL, costs := NULL, epsilon := NULL, nu := NULL,
    rule := NULL, backward := NULL, max_steps := NULL, ridge := NULL, intercept := NULL,
    budget := NULL, always := NULL
) AS CASE
    WHEN rule::VARCHAR NOT IN
        ('fr', 'score', 'omp', 'omp-information', 'omp-unwhitened', 'omp-single')
    THEN dbselect_sequence('foba', record, target, {
        'options': options, 'groups': groups, 'costs': costs, 'epsilon': epsilon, 'nu': nu,
        'rule': rule, 'backward': backward, 'max_steps': max_steps, 'ridge': ridge,
        'intercept': intercept, 'budget': budget, 'always': always
    })
    ELSE system.main.foba(record, target, options, {
        'groups': groups, 'costs': costs, 'epsilon': epsilon, 'nu': nu, 'rule': rule,
        'backward': backward, 'max_steps': max_steps, 'ridge': ridge, 'intercept': intercept,
        'budget': budget, 'always': always
    })
END;
