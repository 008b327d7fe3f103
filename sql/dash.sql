-- dash(record, target, k, groups := NULL, costs := NULL, rounds := NULL, samples := 5,
--      epsilon := 0.1, opt := NULL, alpha := NULL, seed := 0, intercept := true)
--
-- k groups in few adaptive rounds, random sets of good ones at a time (DASH).
--
--   record      Gram record, as gram(...) returns it
--   target      column to predict
--   k           number of groups
--   groups      STRUCT or MAP: name -> list of columns or globs; NULL: every top-level field
--   costs       STRUCT or MAP: name -> cost > 0, in any one unit; NULL: 1 each
--   rounds      number of sets; NULL: 2 log2(number of groups), at most k
--   samples     sets that an expectation is a mean of
--   epsilon     in (0, 1), slack of the thresholds and step of the guesses
--   opt         > 0, value of the best k groups; NULL: guessed
--   alpha       in (0, 1], differential submodularity; NULL: guessed
--   seed        of the random sets
--   intercept   false for models through the origin, as in anytime_sequence
--
-- Returns STRUCT(columns VARCHAR[], groups VARCHAR[], intercept DOUBLE, coefficients
-- MAP(VARCHAR, DOUBLE), explained DOUBLE, r2 DOUBLE, spent DOUBLE);
-- NULL if the record is unusable.
CREATE OR REPLACE TEMP MACRO dash(
    record, target, k, groups := NULL, costs := NULL, rounds := NULL, samples := 5,
    epsilon := 0.1, opt := NULL, alpha := NULL, seed := 0, intercept := true
) AS dbselect_model('dash', record, target, {
    'k': k, 'groups': groups, 'costs': costs, 'rounds': rounds, 'samples': samples,
    'epsilon': epsilon, 'opt': opt, 'alpha': alpha, 'seed': seed,
    'intercept': intercept
});
