-- Version 7 of the schema: turns are recorded with less work.

-- PostgreSQL checks a reference with a query for each row. The turn or the session of
-- these rows is written in the same transaction. SQLite checks the same statements.
ALTER TABLE counts DROP CONSTRAINT IF EXISTS counts_turn_fkey;
ALTER TABLE head_moves DROP CONSTRAINT IF EXISTS head_moves_session_fkey;
ALTER TABLE idempotency_keys DROP CONSTRAINT IF EXISTS idempotency_keys_session_fkey;
ALTER TABLE tool_calls DROP CONSTRAINT IF EXISTS tool_calls_turn_fkey;
ALTER TABLE late_results DROP CONSTRAINT IF EXISTS late_results_turn_fkey;

-- Each turn updates the row of its session. With room on the same page, no index changes.
ALTER TABLE sessions SET (fillfactor = 70);
