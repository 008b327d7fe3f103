-- glm_predict(sequence, row, budget := NULL, handle_unknown := 'unavailable',
--             missing_columns := 'error')
--
-- The predicted mean of the target by the longest prefix that is within the budget and whose
-- columns are all available in the row: a NULL or NaN is not.
--
--   sequence         as anytime_sequence_glm(...) returns it, or a row of a file written by
--                    GlmSequence.write_parquet
--   row              any STRUCT, also a table name: of the raw table, as in anytime_predict
--   budget           in the unit of the costs, constant or column; NULL: no limit; or a STRUCT of
--                    options, as in predict
--   handle_unknown   as in anytime_predict
--   missing_columns  as in anytime_predict
--
-- Returns STRUCT(prediction DOUBLE, probabilities MAP(VARCHAR, DOUBLE), step BIGINT,
-- spent DOUBLE, next_group VARCHAR): the mean (binomial: the probability of 1), NULL for
-- classes; the probability of each class, else NULL; the step used, its cost, and the group
-- to compute next. NULL if no prefix can predict the row.
CREATE OR REPLACE TEMP MACRO glm_predict(
    sequence,
    "row",
    budget := NULL,
    handle_unknown := NULL,
    missing_columns := NULL
) AS list_transform(
    [list_transform(
        sequence.predictors,
        lambda predictor: system.main.anytime_predict(predictor.sequence, "row", {
            'budget': budget, 'handle_unknown': handle_unknown, 'missing_columns': missing_columns
        })
    )],
    lambda results: CASE WHEN results[1] IS NOT NULL THEN {
        'prediction': CASE WHEN sequence.family <> 'multinomial'
            THEN glm_mean(sequence.family, results[1].prediction) END,
        'probabilities': CASE WHEN sequence.family = 'multinomial' THEN map(
            list_transform(sequence.predictors, lambda predictor: predictor.class),
            list_transform(results, lambda result: 1 / list_sum(
                list_transform(results, lambda other: exp(other.prediction - result.prediction))
            ))
        ) END,
        'step': results[1].step,
        'spent': results[1].spent,
        'next_group': results[1].next_group
    } END
)[1];
