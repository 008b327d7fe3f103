"""HTML: results at a glance in notebooks, and a report as one page; nothing here knows a result."""
