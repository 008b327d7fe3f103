-- anytime_predict(sequence, row, budget := NULL, handle_unknown := 'unavailable',
--                 missing_columns := 'error')
--
-- The prediction by the longest prefix that is within the budget and whose columns are all
-- available in the row: a NULL or NaN is not, unless the fit fills it. The row is one of the raw
-- table, as read for the fit: text as text, dates as dates.
-- Columns that are already derived are used as they are: {'x.poly1': ..., 'k.AA': ...}.
--
--   sequence         as anytime_sequence(...) returns it
--   row              as in predict
--   budget           in the unit of the costs, constant or column; NULL: no limit; or a STRUCT of
--                    options, as in predict
--   handle_unknown   as in predict; 'unavailable' uses a prefix without the group of the level
--   missing_columns  as in predict, for columns that a prefix within the budget reads;
--                    'unavailable' uses a prefix without them
--
-- Returns STRUCT(prediction DOUBLE, step BIGINT, spent DOUBLE, next_group VARCHAR):
-- the step used, its cost, and the group to compute next; NULL if the sequence is empty.
-- Text in place of a number of the fit is an error.
CREATE OR REPLACE TEMP MACRO anytime_predict(
    sequence,
    "row",
    budget := NULL,
    handle_unknown := NULL,
    missing_columns := NULL
) AS system.main.anytime_predict(
    sequence,
    "row",
    budget,
    {'handle_unknown': handle_unknown, 'missing_columns': missing_columns}
);
