-- Version 5 of the schema: keys of boundary marks.

-- The secret from which the marks of a tenant's boundary tags are derived.
CREATE TABLE mark_keys (
    tenant INTEGER PRIMARY KEY REFERENCES tenants,
    secret BLOB NOT NULL CHECK (length(secret) = 32)
) STRICT;
