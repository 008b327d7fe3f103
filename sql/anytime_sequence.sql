-- anytime_sequence(record, target, options := NULL, groups := NULL, costs := NULL,
--                  rule := NULL, ridge := NULL, scale := NULL, intercept := NULL,
--                  budget := NULL, max_groups := NULL, always := NULL, c_min := NULL)
--
-- Groups of columns in the order in which they buy prediction, from a Gram record.
--
--   record      Gram record, as gram(...) returns it
--   target      column to predict
--   options     STRUCT of what follows, by name, as the native function takes it
--   groups      STRUCT or MAP: name -> list of columns or globs; NULL: every top-level field
--   costs       STRUCT or MAP: name -> cost > 0, in any one unit; NULL: 1 each
--   rule        NULL: 'fr' (exact gain); 'omp' (group-whitened gradient), 'omp-unwhitened' (gradient),
--               'omp-single' (its largest entry), 'doubling' (exact gain, among groups
--               that at most double the cost), 'score' (here the exact gain) or
--               'omp-information' (here the same as 'omp')
--   ridge       >= 0, lambda on unit-variance columns; NULL: 0
--   scale       false takes ridge and gradients on the columns as they are
--   intercept   false for models through the origin; gains and r2 are then shares of the sum of
--               squares about 0
--   budget      limit on the summed cost, in the unit of costs
--   max_groups  limit on the number of groups
--   always      list of groups taken first
--   c_min       rule 'doubling': the largest cost of the first group; NULL: the cheapest
--
-- Returns a LIST of STRUCT(step BIGINT, action VARCHAR, "group" VARCHAR, cost DOUBLE,
-- spent DOUBLE, score DOUBLE, gain DOUBLE, explained DOUBLE, r2 DOUBLE, useful BOOLEAN,
-- intercept DOUBLE, coefficients MAP(VARCHAR, DOUBLE), terms VARCHAR); gains are shares of
-- the target's variance, coefficients are in the table's units. The first step has the terms
-- of the record: how the columns of the table became these. Empty if the record is unusable:
-- gram_check says why.
--
-- The function of the extension answers, but for a rule that only Python has.
CREATE OR REPLACE TEMP MACRO anytime_sequence(
    record, target, options := NULL, groups := NULL, costs := NULL, rule := NULL, ridge := NULL,
    scale := NULL, intercept := NULL, budget := NULL, max_groups := NULL, always := NULL,
    c_min := NULL
) AS CASE
    WHEN rule::VARCHAR NOT IN
        ('fr', 'score', 'omp', 'omp-information', 'omp-unwhitened', 'omp-single', 'doubling')
    THEN dbselect_sequence('anytime_sequence', record, target, {
        'options': options, 'groups': groups, 'costs': costs, 'rule': rule, 'ridge': ridge,
        'scale': scale, 'intercept': intercept, 'budget': budget, 'max_groups': max_groups,
        'always': always, 'c_min': c_min
    })
    ELSE system.main.anytime_sequence(record, target, options, {
        'groups': groups, 'costs': costs, 'rule': rule, 'ridge': ridge, 'scale': scale,
        'intercept': intercept, 'budget': budget, 'max_groups': max_groups, 'always': always,
        'c_min': c_min
    })
END;
