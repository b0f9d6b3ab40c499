-- Version 14 of the schema: the list of tool results is complete or not for each
-- tenant. NULL for all of them.
ALTER TABLE unlisted_results ADD COLUMN tenant INTEGER;
