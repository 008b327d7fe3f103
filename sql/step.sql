-- step(record, target, groups := NULL, costs := NULL, criterion := 'aic', penalty := NULL,
--      direction := 'both', start := NULL, max_steps := NULL, budget := NULL, always := NULL)
--
-- The addition or removal that lowers AIC most, until none does: R's step.
--
--   record      Gram record, as gram(...) returns it
--   target      column to predict
--   groups      STRUCT or MAP: name -> list of columns or globs; NULL: every top-level field
--   costs       STRUCT or MAP: name -> cost > 0, in any one unit, for the budget; NULL: 1 each
--   criterion   'aic' or 'bic'
--   penalty     price of a parameter in place of 2 or log n; NULL: that of the criterion
--   direction   'both', 'forward' (only additions) or 'backward' (only removals)
--   start       list of groups to begin with; NULL: none, or all where direction is 'backward'
--   max_steps   limit on the moves after the start; NULL: none
--   budget      limit on the summed cost of what is added; NULL: none
--   always      list of groups taken first, which stay; NULL: none
--
-- Returns the LIST of steps of anytime_sequence, of which the last is where no move helps; empty
-- if the record is unusable.
CREATE OR REPLACE TEMP MACRO step(
    record, target, groups := NULL, costs := NULL, criterion := 'aic', penalty := NULL,
    direction := 'both', start := NULL, max_steps := NULL, budget := NULL, always := NULL
) AS dbselect_sequence('step', record, target, {
    'groups': groups, 'costs': costs, 'criterion': criterion, 'penalty': penalty,
    'direction': direction, 'start': start, 'max_steps': max_steps, 'budget': budget,
    'always': always
});
