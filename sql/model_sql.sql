-- model_sql(model, budget := NULL, handle_unknown := 'unavailable')
--
-- The prediction of a model as the text of an SQL expression over the columns of the raw table.
-- A view with it works without the extension.
--
--   model            as in predict
--   budget           for sequences: selects the prefix, in the unit of the costs; NULL: the last;
--                    or a STRUCT of options, as in predict
--   handle_unknown   as in predict
--
-- Returns VARCHAR, for families the mean; NULL if the sequence is empty. Curves and entries, which
-- only Python makes, are an error.
CREATE OR REPLACE TEMP MACRO model_sql(
    model,
    budget := NULL,
    handle_unknown := NULL
) AS system.main.model_sql(model, {'budget': budget, 'handle_unknown': handle_unknown});
