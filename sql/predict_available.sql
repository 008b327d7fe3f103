-- predict_available(record, target, row, options := NULL, groups := NULL, costs := NULL,
--                   budget := NULL, level := NULL, handle_unknown := 'unavailable',
--                   missing_columns := 'error', intercept := NULL, ridge := NULL, scale := NULL)
--
-- The prediction of a row from all groups that it has, whichever they are, and the group to buy
-- next. Every set of groups has the least-squares model on its columns, solved once from the
-- record.
--
--   record           Gram record, as gram(...) returns it; also a stored one
--   target           column to predict
--   row              any STRUCT, also a table name; names match without regard to case. A group
--                    is there if no column of it is NULL or NaN, unless the fit filled it
--   options          STRUCT of what follows, by name; NULL is the default everywhere
--   groups           STRUCT or MAP: name -> list of columns or globs; default: every top-level
--                    field
--   costs            STRUCT or MAP: name -> cost > 0, in any one unit; default: 1 each
--   budget           what may still be bought: the next group costs no more; a constant or a
--                    column; NULL: no limit
--   level            probability of the interval from lower to upper; NULL: no interval
--   handle_unknown   how to treat a level that the fit has not seen: 'unavailable' takes its group
--                    as missing; 'error' raises; 'mean' adds what the levels add on average
--   missing_columns  how to treat a column that the type of the row lacks: 'error' raises;
--                    'unavailable' takes its group as missing
--   intercept, ridge, scale  as in anytime_sequence
--
-- Returns STRUCT(prediction DOUBLE, groups VARCHAR[], spent DOUBLE, r2 DOUBLE, sigma DOUBLE,
-- lower DOUBLE, upper DOUBLE, next_group VARCHAR, next_gain DOUBLE, next_cost DOUBLE): groups, those
-- that the row has; r2 and the standard deviation of the residuals on the rows of the record; the
-- group of the largest gain per cost among the others; NULL if the record is unusable. Whether the
-- columns depend on each other so much that digits are lost, the note of fit(record, target) says.
CREATE OR REPLACE TEMP MACRO predict_available(
    record, target, "row", options := NULL, groups := NULL, costs := NULL, budget := NULL,
    level := NULL, handle_unknown := NULL, missing_columns := NULL, intercept := NULL,
    ridge := NULL, scale := NULL
) AS system.main.predict_available(record, target, "row", options, {
    'groups': groups, 'costs': costs, 'budget': budget, 'level': level,
    'handle_unknown': handle_unknown, 'missing_columns': missing_columns, 'intercept': intercept,
    'ridge': ridge, 'scale': scale
});
