-- Of a stateful stream: what its operators held after the batch, and where it stood in event time.
ALTER TABLE progress ADD COLUMN state jsonb;
