-- Of a record delivered to a topic there may be none, one or many outputs.
ALTER TABLE ledger ADD COLUMN outputs bigint NOT NULL DEFAULT 0;
