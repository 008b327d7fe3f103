-- predict(model, row, budget := NULL, handle_unknown := 'unavailable',
--         missing_columns := 'error')
--
-- The prediction of a model for a row of the raw table, as read for the fit: text as text, dates
-- as dates. A sequence predicts like anytime_predict.
--
--   model            as fit(...), fit_glm(...), best_within(...) and others return it, or a
--                    sequence, also of anytime_sequence_glm(...)
--   row              any STRUCT, also a table name; names match without regard to case
--   budget           for sequences, in the unit of the costs; NULL: no limit. A STRUCT in its place
--                    has all options by name: {'budget': 5, 'handle_unknown': 'mean'}
--   handle_unknown   how to treat a level that was not in the fit and has no column 'other':
--                    'unavailable' gives NULL; 'error' raises; 'mean' adds the average effect of
--                    the levels over the rows of the fit
--   missing_columns  how to treat a column that the type of the row lacks: 'error' raises;
--                    'unavailable' gives NULL
--
-- Returns STRUCT(prediction DOUBLE, step BIGINT, spent DOUBLE, next_group VARCHAR); for models
-- only the prediction; for families the mean of the target. NULL if a column is NULL and the fit
-- does not fill it.
CREATE OR REPLACE TEMP MACRO predict(
    model,
    "row",
    budget := NULL,
    handle_unknown := NULL,
    missing_columns := NULL
) AS system.main.predict(
    model,
    "row",
    {'budget': budget, 'handle_unknown': handle_unknown, 'missing_columns': missing_columns}
);
