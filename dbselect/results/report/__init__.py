"""The parts of the report of a sequence, gathered for `dbselect.pages.report`."""
