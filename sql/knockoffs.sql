-- knockoffs(record, target, groups := NULL, costs := NULL, q := 0.1,
--           search := 'anytime_sequence', kind := 'fixed', draws := 1, seed := 0)
--
-- Groups that a search prefers to copies that know nothing of the target, with a bound on the
-- expected share of false ones.
--
--   record      Gram record, as gram(...) returns it
--   target      column to predict
--   groups      STRUCT or MAP: name -> list of columns or globs; NULL: every top-level field
--   costs       STRUCT or MAP: name -> cost > 0, in any one unit; NULL: 1 each
--   q           in (0, 1), bound on the expected share of false groups among those selected
--   search      'anytime_sequence', 'foba', 'group_lasso' or 'step'
--   kind        'fixed' (nothing is assumed of the columns) or 'second_order'
--   draws       times that copies are drawn
--   seed        of the draws
--
-- Returns LIST of STRUCT("group" VARCHAR, cost DOUBLE, statistic DOUBLE, frequency DOUBLE,
-- e_value DOUBLE, selected BOOLEAN), the strongest group first;
-- NULL if the record is unusable or has too few rows.
CREATE OR REPLACE TEMP MACRO knockoffs(
    record, target, groups := NULL, costs := NULL, q := 0.1, search := 'anytime_sequence',
    kind := 'fixed', draws := 1, seed := 0
) AS dbselect_beside('knockoffs', record, target, {
    'groups': groups, 'costs': costs, 'q': q, 'search': search, 'kind': kind, 'draws': draws,
    'seed': seed
});
