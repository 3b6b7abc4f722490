-- Offsets are those of one topic epoch (P1.6). Before there was this column there was no second epoch.
ALTER TABLE ledger ADD COLUMN epoch integer NOT NULL DEFAULT 1;
ALTER TABLE ledger ALTER COLUMN epoch DROP DEFAULT;
