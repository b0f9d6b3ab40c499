-- Version 6 of the schema: turns of a session can be deleted.

-- 1 for a turn whose content was deleted; NULL otherwise. The row remains, because
-- the id of the next turn is a hash that includes the id of this one.
ALTER TABLE turns ADD COLUMN deleted BIGINT;

CREATE INDEX turns_deleted ON turns (tenant) WHERE deleted = 1;

-- The number of times that turns of the tenant were deleted. Turns in memory are
-- valid for one such number only.
ALTER TABLE tenants ADD COLUMN turn_deletions BIGINT NOT NULL DEFAULT 0;
