-- anytime_predict(sequence, row, budget := NULL, handle_unknown := 'unavailable')
--
-- The prediction of the longest prefix that lies within the budget and whose columns are
-- all present and neither NULL nor NaN in the row. The row is one of the raw table, as it was
-- read for the fit: text as text, dates as dates, and what was filled there is filled here.
-- Columns that were made already are taken as they are: {'x.poly1': ..., 'k.AA': ...}.
--
--   sequence        as anytime_sequence(...) returns it
--   row             any STRUCT, also a table name; names match without regard to case
--   budget          in the unit of the costs, a constant or a column; NULL: no limit
--   handle_unknown  a level that the fit has not seen, and no column 'other' takes:
--                   'unavailable' leaves its group out, as next_group tells; 'error' raises;
--                   'zero' takes all levels as 0
--
-- Returns STRUCT(prediction DOUBLE, step BIGINT, spent DOUBLE, next_group VARCHAR):
-- the step used, its cost, and the group to compute next; NULL if the sequence is empty.
-- Text where the fit has read a number is an error, as is a row with none of the columns.
CREATE OR REPLACE TEMP MACRO anytime_predict(
    sequence, "row", budget := NULL, handle_unknown := 'unavailable'
) AS system.main.anytime_predict(
    sequence, "row", budget, {'handle_unknown': handle_unknown}
);
