-- evaluate(model, record, target := NULL)
--
-- The error of a model, or of each step of a sequence, on the rows of a Gram record, such as a
-- held-out fold, of which no row is read. The models are not refitted; the numbers are those of
-- dbselect.evaluate in Python.
--
--   model   linear, as fit(...), best_within(...) and others return it, or a sequence; families
--           need rows
--   record  Gram record of other rows, read as those of the fit: text as text, dates as dates
--   target  column that the model predicts; NULL: the one column of the record that no step reads
--
-- Returns STRUCT(r2 DOUBLE, mse DOUBLE, rmse DOUBLE), for a sequence a LIST with a STRUCT(step,
-- "group", spent, r2, mse, rmse) for each step; NULL where the record is unusable, which gram_check
-- explains. r2 is 1 - mse / variance of the target in the record. A level that the fit has not
-- seen counts as the mean effect of the levels in the fit.
CREATE OR REPLACE TEMP MACRO evaluate(model, record, target := NULL) AS
    system.main.evaluate(model, record, target);
