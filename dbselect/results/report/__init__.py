"""What a report tells of a sequence, gathered for `dbselect.pages.report`."""
