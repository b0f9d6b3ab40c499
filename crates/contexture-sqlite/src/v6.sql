-- Version 6 of the schema: compactions between the steps of a turn.

-- The first message of the first turn that is kept.
ALTER TABLE compactions ADD COLUMN first_kept_message INTEGER NOT NULL DEFAULT 0;
-- JSON: what the summary was made of.
ALTER TABLE compactions ADD COLUMN facts TEXT;

-- `begins` says whether a step begins with the turn. Before, only turns that
-- begin with the user counted.
UPDATE turns
SET begins = TRUE
WHERE kind = 'normal'
    AND NOT begins
    AND NOT EXISTS (SELECT 1 FROM late_results WHERE late_results.turn = turns.key)
    AND (SELECT role FROM messages WHERE messages.key = turns.key << 14) = 'assistant';
