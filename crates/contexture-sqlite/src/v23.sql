-- Version 23 of the schema: the records of a user are found by an index.

CREATE INDEX memories_of_user ON memories (tenant, "user") WHERE "user" IS NOT NULL;
