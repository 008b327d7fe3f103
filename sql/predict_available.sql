-- predict_available(record, target, row, options := NULL, groups := NULL, costs := NULL,
--                   budget := NULL, level := NULL, handle_unknown := 'unavailable',
--                   missing_columns := 'error', accept_above := NULL, worth := NULL,
--                   payoff := NULL, intercept := NULL, ridge := NULL, scale := NULL,
--                   shared := NULL, needs := NULL, one_of := NULL, limits := NULL)
--
-- The prediction of a row from whichever groups are available in it, and the group to buy next.
-- Each set of groups has the least-squares model on its columns, solved once from the record.
--
--   record           Gram record, as gram(...) returns it; also a stored one
--   target           column to predict
--   row              any STRUCT, also a table name; names match without regard to case. A group
--                    is available if none of its columns is NULL or NaN, unless the fit fills it
--   options          STRUCT of the options below, by name; NULL takes the default of each
--   groups           STRUCT or MAP: name -> list of columns or globs; default: every top-level
--                    field
--   costs            STRUCT or MAP: name -> cost > 0, in any one unit; default: 1 each
--   budget           largest cost of the next group, a constant or a column; NULL: no limit
--   level            probability of the interval from lower to upper; NULL: no interval
--   handle_unknown   how to treat a level that was not in the fit: 'unavailable' takes its group
--                    as missing; 'error' raises; 'mean' adds the average effect of the levels
--   missing_columns  how to treat a column that the type of the row lacks: 'error' raises;
--                    'unavailable' takes its group as missing
--   accept_above, worth  accept rows in which worth times (prediction - accept_above) is above 0, an
--                    amount in the unit of cost, and choose next_group by what it is worth; NULL:
--                    no row is accepted; if one of them is given, 0 and 1
--   payoff           instead: [gain, loss] of an accepted row whose target is 1, and 0
--   intercept, ridge, scale, shared, needs, one_of, limits  as in anytime_sequence
--
-- Returns STRUCT(prediction DOUBLE, groups VARCHAR[], spent DOUBLE, r2 DOUBLE, sigma DOUBLE,
-- lower DOUBLE, upper DOUBLE, next_group VARCHAR, next_gain DOUBLE, next_cost DOUBLE,
-- accept BOOLEAN, next_value DOUBLE): the groups
-- available in the row; r2 and the standard deviation of the residuals on the rows of the record;
-- the other group with the largest gain per cost, or that which is worth most above its cost, next_value,
-- where rows are accepted. NULL if the record is unusable. The note of
-- fit(record, target) warns if the columns depend on each other so much that digits are lost.
CREATE OR REPLACE TEMP MACRO predict_available(
    record, target, "row", options := NULL, groups := NULL, costs := NULL, budget := NULL,
    level := NULL, handle_unknown := NULL, missing_columns := NULL, accept_above := NULL,
    worth := NULL, payoff := NULL, intercept := NULL, ridge := NULL, scale := NULL,
    shared := NULL, needs := NULL, one_of := NULL, limits := NULL
) AS system.main.predict_available(record, target, "row", options, {
    'groups': groups, 'costs': costs, 'budget': budget, 'level': level,
    'handle_unknown': handle_unknown, 'missing_columns': missing_columns,
    'accept_above': accept_above, 'worth': worth, 'payoff': payoff, 'intercept': intercept,
    'ridge': ridge, 'scale': scale, 'shared': shared, 'needs': needs, 'one_of': one_of,
    'limits': limits
});
