-- glm_predict(sequence, row, budget := NULL, handle_unknown := 'unavailable',
--             missing_columns := 'error')
--
-- The mean of the target by the longest prefix that lies within the budget and whose columns
-- are all available in the row: a NULL or NaN is not.
--
--   sequence         as anytime_sequence_glm(...) returns it, or a row of the file that
--                    GlmSequence.write_parquet wrote
--   row              any STRUCT, also a table name: of the raw table, as in anytime_predict
--   budget           in the unit of the costs, a constant or a column; NULL: no limit; or a STRUCT
--                    of options, as in predict
--   handle_unknown   as in anytime_predict
--   missing_columns  as in anytime_predict
--
-- Returns STRUCT(prediction DOUBLE, probabilities MAP(VARCHAR, DOUBLE), step BIGINT,
-- spent DOUBLE, next_group VARCHAR): the mean (binomial: the probability of 1), NULL for
-- classes; the probability of each class, else NULL; the step used, its cost, and the group
-- to compute next. NULL if no prefix serves the row.
CREATE OR REPLACE TEMP MACRO glm_predict(
    sequence,
    "row",
    budget := NULL,
    handle_unknown := NULL,
    missing_columns := NULL
) AS list_transform(
    [list_transform(
        sequence.predictors,
        lambda one: system.main.anytime_predict(one.sequence, "row", {
            'budget': budget, 'handle_unknown': handle_unknown, 'missing_columns': missing_columns
        })
    )],
    lambda found: CASE WHEN found[1] IS NOT NULL THEN {
        'prediction': CASE WHEN sequence.family <> 'multinomial'
            THEN glm_mean(sequence.family, found[1].prediction) END,
        'probabilities': CASE WHEN sequence.family = 'multinomial' THEN map(
            list_transform(sequence.predictors, lambda one: one.class),
            list_transform(found, lambda one: 1 / list_sum(
                list_transform(found, lambda other: exp(other.prediction - one.prediction))
            ))
        ) END,
        'step': found[1].step,
        'spent': found[1].spent,
        'next_group': found[1].next_group
    } END
)[1];
