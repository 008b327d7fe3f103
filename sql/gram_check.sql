-- gram_check(record, target)
--
-- Why no sequence can be computed from a Gram record: no usable rows, a constant target, one
-- that is 0 where it is missing, or a malformed record. VARCHAR; NULL if the record is usable.
-- It looks at all columns together, a search at those it meets: a record that no rows can have
-- may be refused here, and give a sequence that ends before the columns that are wrong.
CREATE OR REPLACE TEMP MACRO gram_check(record, target) AS system.main.gram_check(record, target);
