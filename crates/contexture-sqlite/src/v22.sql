-- Version 22 of the schema: rows that refer to a deleted row are found by an index.

CREATE INDEX nodes_of_parent ON nodes (parent) WHERE parent IS NOT NULL;
CREATE INDEX turns_of_parent ON turns (parent) WHERE parent IS NOT NULL;
CREATE INDEX turns_of_compaction ON turns (compaction) WHERE compaction IS NOT NULL;
CREATE INDEX messages_of_turn ON messages (turn);
CREATE INDEX keys_of_turn ON idempotency_keys (turn);
