-- predict(model, row, budget := NULL, handle_unknown := 'unavailable',
--         missing_columns := 'error')
--
-- What a model predicts of a row of the raw table, as it was read for the fit: text as text,
-- dates as dates. A sequence predicts as anytime_predict does.
--
--   model            as fit(...), fit_glm(...), best_within(...) and others return it, or a
--                    sequence, also of anytime_sequence_glm(...)
--   row              any STRUCT, also a table name; names match without regard to case
--   budget           of sequences, in the unit of the costs; NULL: no limit. A STRUCT in its place
--                    has all options by name: {'budget': 5, 'handle_unknown': 'mean'}
--   handle_unknown   how to treat a level that the fit has not seen and no column 'other' takes:
--                    'unavailable' gives NULL; 'error' raises; 'mean' adds what the levels add on
--                    average over the rows of the fit
--   missing_columns  how to treat a column that the type of the row lacks: 'error' raises;
--                    'unavailable' gives NULL
--
-- Returns STRUCT(prediction DOUBLE, step BIGINT, spent DOUBLE, next_group VARCHAR); of models
-- only the prediction; of families the mean of the target. NULL where a column is NULL that the fit
-- did not fill.
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
