-- gram_check(record, target)
--
-- Why no sequence can be computed from a Gram record: no usable rows, a constant target, one
-- that is 0 where it is missing, or a malformed record. VARCHAR; NULL if the record is usable.
CREATE OR REPLACE TEMP MACRO gram_check(record, target) AS system.main.gram_check(record, target);
