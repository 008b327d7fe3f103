-- anytime_sequence_wide(query_or_table, target, groups := NULL, costs := NULL, rule := NULL,
--                       ridge := NULL, scale := NULL, budget := NULL, max_groups := NULL,
--                       always := NULL, c_min := NULL, null_policy := NULL, weight := NULL)
--
-- anytime_sequence of a table too wide for its Gram record: the table is read a handful of
-- times, each for the rows of the Gram that the search needs. A MAP of numbers, or a LIST of
-- STRUCTs of two, is a column x[17] for each entry.
--
--   query_or_table  text: the name of a table or view, as SQL writes it, or one query, which
--                   is run in every scan and must give the same rows each time
--   target          column to predict
--   null_policy     'skip' (NULL), 'error', 'mean' or 'indicator', or a MAP from columns and
--                   globs to these
--   weight          column of row weights, >= 0
--   groups, costs, rule, ridge, scale, budget, max_groups, always, c_min: as in
--                   anytime_sequence; NULL for the defaults there
--
-- Returns the LIST of steps of anytime_sequence, for anytime_predict; NULL without a table is
-- an empty one.
--
-- Limits: those of anytime_sequence_glm. The scans run on a connection of their own, which sees
-- the data committed when the call began, and neither temporary tables, views and macros nor
-- Python objects; for those, call dbselect.anytime_sequence(con.table(...), wide=True) in Python.
CREATE OR REPLACE TEMP MACRO anytime_sequence_wide(
    query_or_table, target, groups := NULL, costs := NULL, rule := NULL, ridge := NULL,
    scale := NULL, budget := NULL, max_groups := NULL, always := NULL, c_min := NULL,
    null_policy := NULL, weight := NULL
) AS dbselect_sequence_wide(
    getvariable('dbselect_connection'), current_setting('search_path'), query_or_table, target,
    {
        'groups': groups, 'costs': costs, 'rule': rule, 'ridge': ridge, 'scale': scale,
        'budget': budget, 'max_groups': max_groups, 'always': always, 'c_min': c_min,
        'null_policy': null_policy, 'weight': weight
    }
);
