-- gram_check(record, target)
--
-- The reason why a Gram record gives no sequence: no usable rows, a constant target, a target
-- that is 0 where it is missing, or a malformed record. VARCHAR; NULL if the record is usable.
-- The check covers all columns at once, a search only those it reaches: an impossible record may
-- be refused here, and yet give a sequence that ends before the columns that are wrong.
CREATE OR REPLACE TEMP MACRO gram_check(record, target) AS system.main.gram_check(record, target);
