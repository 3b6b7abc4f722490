-- P7: a run of commits of one sink, and the closed offset ranges they moved its tidemark over; the unit of reconciliation.
CREATE TABLE reconciliation_window (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream        text NOT NULL,
    sink          text NOT NULL,
    run           text NOT NULL,       -- the DAG run that chose it; a task that is cleared finds it again
    by_hand       boolean NOT NULL,    -- asked for with from and to: it moves no mark
    epoch         integer NOT NULL,
    topic_id      text NOT NULL,
    after_version bigint NOT NULL,     -- the commits are those after this version of the table,
    up_to_version bigint NOT NULL,     -- up to this one
    snapshot      bigint NOT NULL,     -- the version at which the table is measured
    starts        jsonb NOT NULL,
    ends          jsonb NOT NULL,
    chosen_at     timestamptz NOT NULL DEFAULT now(),
    audited       jsonb,               -- what the ledger says of it
    measured      jsonb,               -- what was counted again
    verdict       text,                -- NULL until it is judged
    told          text,
    judged_at     timestamptz,
    settled_by    bigint REFERENCES reconciliation_window,  -- a later window, by hand, that holds a failed one and passed
    UNIQUE (stream, sink, run)
);
