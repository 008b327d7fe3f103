-- gram_extend(record, sums, table, key := NULL, columns := NULL, name := NULL,
--             unmatched := NULL, many := NULL, "order" := NULL, max_levels := NULL)
--
-- The Gram record with the columns of a table that is looked up by a key added: the record of the
-- joined rows, computed without the join and without the facts.
--
--   record      Gram record of all facts, such as gram_merge(...) of those by key
--   sums        key_sums(key, record) of the same facts
--   table       its rows: (SELECT list(t) FROM t), one for each key
--   key         LIST of the names of the key fields in the table, or STRUCT from the names in the
--               facts to these; NULL: as in the sums
--   columns     LIST of names and globs; NULL: all but the key
--   name        STRUCT field that the columns are put into: weather.temp
--   unmatched   for keys that the table lacks, or has with a NULL: 'indicator' (NULL) uses 0 and
--               adds a column <name>.missing; 'skip' leaves the rows out; 'error'
--   many        LIST of 'mean', 'count' and 'latest', for several rows of a key; NULL: an error
--   order       column whose largest value marks the latest row
--   max_levels  of text columns, as in gram
--
-- Returns a Gram record; NULL if the record, the sums or the table is NULL, as (SELECT list(t)
-- FROM t) is for a table without rows. The rows of the table are held in memory.
CREATE OR REPLACE TEMP MACRO gram_extend(
    record, sums, "table", key := NULL, columns := NULL, name := NULL,
    unmatched := NULL, many := NULL, "order" := NULL, max_levels := NULL
) AS dbselect_extend(record, sums, "table", {
    'key': key, 'columns': columns, 'name': name, 'unmatched': unmatched,
    'many': many, 'order': "order", 'max_levels': max_levels
});
