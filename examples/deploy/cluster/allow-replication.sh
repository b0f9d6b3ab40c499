#!/bin/sh
# Lets the standby connect to the primary. Runs once, when the primary is created.
set -eu
echo "host replication $POSTGRES_USER all scram-sha-256" >>"$PGDATA/pg_hba.conf"
