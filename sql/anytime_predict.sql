-- anytime_predict(sequence, row, budget := NULL, handle_unknown := 'unavailable',
--                 missing_columns := 'error')
--
-- The prediction of the longest prefix that lies within the budget and whose columns are
-- all available in the row: a NULL or NaN is not, unless the fit filled it. The row is one of
-- the raw table, as it was read for the fit: text as text, dates as dates.
-- Columns that were made already are taken as they are: {'x.poly1': ..., 'k.AA': ...}.
--
--   sequence         as anytime_sequence(...) returns it
--   row              any STRUCT, also a table name; names match without regard to case
--   budget           in the unit of the costs, a constant or a column; NULL: no limit
--   handle_unknown   how to treat a level that the fit has not seen and no column 'other' takes:
--                    'unavailable' uses a prefix without its group; 'error' raises; 'mean' adds
--                    what the levels add on average over the rows of the fit
--   missing_columns  how to treat a column that the type of the row lacks, if a prefix within
--                    the budget reads it: 'error' raises; 'unavailable' uses a prefix without it
--
-- Returns STRUCT(prediction DOUBLE, step BIGINT, spent DOUBLE, next_group VARCHAR):
-- the step used, its cost, and the group to compute next; NULL if the sequence is empty.
-- Text where the fit has read a number is an error.
CREATE OR REPLACE TEMP MACRO anytime_predict(
    sequence,
    "row",
    budget := NULL,
    handle_unknown := 'unavailable',
    missing_columns := 'error'
) AS system.main.anytime_predict(
    sequence,
    "row",
    budget,
    {'handle_unknown': handle_unknown, 'missing_columns': missing_columns}
);
