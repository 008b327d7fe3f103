-- glm_predict(sequence, row, budget := NULL, handle_unknown := 'unavailable',
--             missing_columns := 'error')
--
-- The mean of the target by the longest prefix that lies within the budget and whose columns
-- are all available in the row: a NULL or NaN is not.
--
--   sequence         as anytime_sequence_glm(...) returns it, or a row of the file that
--                    GlmSequence.write_parquet wrote
--   row              any STRUCT, also a table name: of the raw table, as in anytime_predict
--   budget           in the unit of the costs, a constant or a column; NULL: no limit
--   handle_unknown   as in anytime_predict
--   missing_columns  as in anytime_predict
--
-- Returns STRUCT(prediction DOUBLE, probabilities MAP(VARCHAR, DOUBLE), step BIGINT,
-- spent DOUBLE, next_group VARCHAR): the mean (binomial: the probability of 1), NULL for
-- classes; the probability of each class, else NULL; the step used, its cost, and the group
-- to compute next. NULL if no prefix serves the row. An error for 'binomial(probit)': DuckDB has no
-- normal distribution.
CREATE OR REPLACE TEMP MACRO glm_predict(
    sequence,
    "row",
    budget := NULL,
    handle_unknown := 'unavailable',
    missing_columns := 'error'
) AS list_transform(
    [list_transform(
        sequence.predictors,
        lambda one: dbselect_predict(
            one.sequence, "row", budget, handle_unknown, missing_columns
        )
    )],
    lambda found: CASE WHEN found[1] IS NOT NULL THEN {
        'prediction': CASE sequence.family
            WHEN 'multinomial' THEN NULL
            WHEN 'gaussian' THEN found[1].prediction
            WHEN 'binomial' THEN 1 / (1 + exp(-found[1].prediction))
            WHEN 'binomial(cloglog)' THEN 1 - exp(-exp(least(found[1].prediction, 6.5)))
            WHEN 'binomial(loglog)' THEN exp(-exp(least(-found[1].prediction, 6.5)))
            WHEN 'binomial(cauchit)' THEN 0.5 + atan(found[1].prediction) / pi()
            WHEN 'binomial(log)' THEN least(exp(least(found[1].prediction, 0)), 1 - 1e-12)
            WHEN 'binomial(probit)' THEN error(
                'DuckDB has no normal distribution for ' || sequence.family
                || '; take the text of GlmSequence.sql in Python'
            )
            -- Families by another link than their first, where the predictor has a mean.
            WHEN 'gaussian(inverse)' THEN 1 / nullif(found[1].prediction, 0)
            WHEN 'binomial(identity)' THEN
                CASE WHEN found[1].prediction > 0 AND found[1].prediction < 1
                THEN found[1].prediction END
            ELSE CASE regexp_extract(sequence.family, '(\w+)\)$', 1)
                WHEN 'identity' THEN
                    CASE WHEN found[1].prediction > 0 THEN found[1].prediction END
                WHEN 'inverse' THEN
                    CASE WHEN found[1].prediction > 0 THEN 1 / found[1].prediction END
                WHEN 'inverse_squared' THEN
                    CASE WHEN found[1].prediction > 0 THEN 1 / sqrt(found[1].prediction) END
                WHEN 'sqrt' THEN
                    CASE WHEN found[1].prediction > 0 THEN found[1].prediction ** 2 END
                -- The mean of the others is the exponential, as far as the passes count.
                ELSE exp(greatest(least(found[1].prediction, 100), -100))
            END
        END,
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
