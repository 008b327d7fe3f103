-- anytime_sequence_glm(query_or_table, target, family, groups := NULL, costs := NULL,
--                      rule := 'fr', ridge := 0.0, scale := true, budget := NULL,
--                      max_groups := NULL, always := NULL, weight := NULL,
--                      offset_column := NULL, positive := NULL, max_iter := 25, tol := 1e-8)
--
-- Groups of columns in the order in which they explain the deviance of a generalised linear
-- model for their cost. The table is read again for every Newton step.
--
--   query_or_table  text: the name of a table or view, as SQL writes it, or one query, which
--                   is run in every pass and must give the same rows each time
--   target          column to predict: 0/1, boolean or text of two levels (binomial), >= 0
--                   (poisson), any number (gaussian), one of several values (multinomial)
--   family          'binomial', 'poisson', 'gaussian', 'multinomial', 'gamma', 'inverse_gaussian',
--                   'binomial(probit)', 'binomial(cloglog)', 'binomial(log)', 'tweedie(1.5)',
--                   'negative_binomial(0.8)': the link or the number in brackets
--   rule            'fr' (a refit with every group), 'score' (the score test: nearly as
--                   good and much cheaper), 'omp' (the gradient, whitened by X'X),
--                   'omp-information' (by X'WX), 'omp-unwhitened' or 'omp-single'
--   weight          column of row weights, >= 0
--   offset_column   column that is added to the predictor, but of 'multinomial'
--   positive        of a binomial target of two texts, booleans or numbers, the one that counts
--                   as 1; default: of text the second in order
--   max_iter, tol   limit on the passes of a step; a fit ends when its next step explains
--                   less than this share of the null deviance
--   groups, costs, ridge, scale, budget, max_groups, always: as in anytime_sequence
--
-- Returns STRUCT(target, family, class_type, levels, offset, rule, ridge, scale, groups,
-- unused, choices, aliased, stop, rows, skipped, passes, rows_read, bytes_read, steps,
-- predictors), what GlmSequence.to_struct gives in Python; NULL without a table. steps is a LIST of
-- STRUCT(step, action, "group", cost, spent, score, gain, explained, r2, useful, deviance,
-- status, passes); gains are shares of the null deviance. predictors is a LIST of
-- STRUCT(class, sequence), one for each class, else one, whose class is the level that counts
-- as 1 if there are levels: sequence is a list of steps as
-- anytime_sequence returns it, whose anytime_predict is the linear predictor. glm_predict
-- gives the mean.
--
-- Limits: the passes run on a connection of their own. They see the data committed when the
-- call began, and neither temporary tables, views and macros nor Python objects; for those,
-- call dbselect.anytime_sequence(con.table(...), family=...) in Python. Ctrl-C ends the
-- search with the steps so far, but only where DuckDB runs the call on the main thread, which
-- depends on the query; elsewhere the query ends when the call does.
CREATE OR REPLACE TEMP MACRO anytime_sequence_glm(
    query_or_table, target, family, groups := NULL, costs := NULL, rule := 'fr', ridge := 0.0,
    scale := true, budget := NULL, max_groups := NULL, always := NULL, weight := NULL,
    offset_column := NULL, positive := NULL, max_iter := 25, tol := 1e-8
) AS dbselect_sequence_glm(
    getvariable('dbselect_connection'), current_setting('search_path'), query_or_table, target, family,
    {
        'groups': groups, 'costs': costs, 'rule': rule, 'ridge': ridge, 'scale': scale,
        'budget': budget, 'max_groups': max_groups, 'always': always, 'weight': weight,
        'offset': offset_column, 'positive': positive, 'max_iter': max_iter, 'tol': tol
    }
);
