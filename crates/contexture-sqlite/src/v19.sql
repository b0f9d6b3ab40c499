-- Version 19 of the schema: whether a session's turns become memory events.

-- 0 or 1; NULL: as the settings say.
ALTER TABLE sessions ADD COLUMN remember INTEGER;
