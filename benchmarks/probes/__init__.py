"""Programs that measure one fresh process from within and print one JSON object."""
