-- fit(record, target, columns := NULL, options := NULL, intercept := NULL, ridge := NULL,
--     scale := NULL)
--
-- Least squares on some columns of a Gram record, all of them, without a search.
--
--   record      Gram record, as gram(...) returns it
--   target      column to predict
--   columns     LIST of names and globs; NULL: every column but the target
--   options     STRUCT of what follows, by name, as the native function takes it
--   intercept   false for a model through the origin, whose r2 is 1 - RSS / sum of y^2; NULL: true
--   ridge       >= 0, lambda on unit-variance columns, the intercept not penalised; NULL: 0
--   scale       false takes ridge on the columns as they are; NULL: true
--
-- Returns STRUCT(intercept DOUBLE, coefficients MAP(VARCHAR, DOUBLE), explained DOUBLE, r2 DOUBLE,
-- sigma DOUBLE, rows BIGINT, skipped BIGINT, aliased VARCHAR[], note VARCHAR). explained is the
-- share of the target's variance that the penalised objective explains, at ridge 0 the r2; sigma
-- the standard deviation of the residuals, NULL with a ridge and where no row is left to estimate
-- it; aliased the columns that depend linearly on columns before them, whose coefficient is 0;
-- note what has to be told of the model, NULL if nothing: as many coefficients as rows, columns
-- so nearly dependent that digits are lost. NULL if the record is unusable: gram_check says why.
--
--   SELECT region, unnest(fit(gram({'y': y, 'a': a, 'b': b}), 'y')) FROM t GROUP BY region
--   SELECT fit(gram(t), 'y', ['a', 'b']).coefficients['a'] FROM t
CREATE OR REPLACE TEMP MACRO fit(
    record, target, columns := NULL, options := NULL, intercept := NULL, ridge := NULL,
    scale := NULL
) AS system.main.fit(record, target, columns, options, {
    'intercept': intercept, 'ridge': ridge, 'scale': scale
});
