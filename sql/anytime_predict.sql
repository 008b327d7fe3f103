-- anytime_predict(sequence, row, budget := NULL)
--
-- The prediction of the longest prefix that lies within the budget and whose columns are
-- all present and neither NULL nor NaN in the row. An indicator x.missing is a column like all
-- others: {'x': coalesce(x, 0), 'x.missing': x IS NULL}.
--
--   sequence  as anytime_sequence(...) returns it
--   row       any STRUCT, also a table name
--   budget    in the unit of the costs, a constant or a column; NULL: no limit
--
-- Returns STRUCT(prediction DOUBLE, step BIGINT, spent DOUBLE, next_group VARCHAR):
-- the step used, its cost, and the group to compute next; NULL if the sequence is empty.
CREATE OR REPLACE TEMP MACRO anytime_predict(sequence, "row", budget := NULL)
AS dbselect_predict(sequence, "row", budget);
