"""The content of the report of a sequence, laid out by `dbselect.pages.report`."""
