-- Version 10 of the schema: the reports of snapshots.

-- The report of each request that was saved: the candidates that were left out,
-- the reasons, and the settings that the request was assembled with. JSON.
CREATE TABLE snapshot_reports (
    tenant INTEGER NOT NULL REFERENCES tenants,
    hash   BLOB NOT NULL CHECK (length(hash) = 32),
    report BLOB NOT NULL,
    PRIMARY KEY (tenant, hash)
) STRICT, WITHOUT ROWID;

-- A report is of no use without its snapshot.
CREATE TRIGGER snapshot_reports_end AFTER DELETE ON snapshots
WHEN NOT EXISTS (SELECT 1 FROM snapshots WHERE tenant = OLD.tenant AND hash = OLD.hash)
BEGIN
    DELETE FROM snapshot_reports WHERE tenant = OLD.tenant AND hash = OLD.hash;
END;
