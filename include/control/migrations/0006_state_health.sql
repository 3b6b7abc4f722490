-- Of a stateful stream: what its operators held after the batch, and where it stood in event time.
ALTER TABLE progress ADD COLUMN state jsonb;

-- And how many offsets a start reads again for its state, before its first new batch: so much longer may that take.
ALTER TABLE generation ADD COLUMN state_reads bigint NOT NULL DEFAULT 0;
