-- What stream/subscriber keeps, in the schema that the pool's search_path names first. May be run again.

-- Where each group is in each partition. The epoch is the fence: every claim counts it up, and whoever has an older one writes nothing.
CREATE TABLE IF NOT EXISTS forebay_positions (
    consumer_group text    NOT NULL,
    topic          text    NOT NULL,
    partition      integer NOT NULL,
    topic_id       bytea   NOT NULL,
    epoch          bigint  NOT NULL,
    next_offset    bigint  NOT NULL CHECK (next_offset >= 0),
    PRIMARY KEY (consumer_group, topic, partition)
);
-- The leader epoch of the last record before next_offset, by which a cut of the log is noticed, and the next_offset that it was written with:
-- a person, or a program that is older than these columns, moves next_offset alone, and the epoch says nothing about that.
-- ALTER TABLE waits for all who use the table, and lets nobody else in meanwhile, also where it does nothing: it is left out then.
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'forebay_positions'::regclass AND attname = 'leader_epoch_of') THEN
        ALTER TABLE forebay_positions ADD COLUMN IF NOT EXISTS leader_epoch integer NOT NULL DEFAULT -1, ADD COLUMN IF NOT EXISTS leader_epoch_of bigint NOT NULL DEFAULT -1;
    END IF;
END $$;

-- Where each group begins in each topic: what its partitions' ends were when it was first started, from partition 0 on; none with Begin all.
-- A partition that is not in it, because it came later, begins at its start, and so does a topic with another id.
CREATE TABLE IF NOT EXISTS forebay_begins (
    consumer_group text     NOT NULL,
    topic          text     NOT NULL,
    topic_id       bytea    NOT NULL,
    ends           bigint[] NOT NULL,
    PRIMARY KEY (consumer_group, topic)
);

-- The version line of each clock of each entity: its newest version, and the values that were skipped as pairs from, to.
CREATE TABLE IF NOT EXISTS forebay_lines (
    consumer_group text     NOT NULL,
    topic          text     NOT NULL,
    entity         text     NOT NULL,
    clock          text     NOT NULL,
    kind           text     NOT NULL,
    version        text     NOT NULL,
    event_key      bytea    NOT NULL,
    skipped        bigint[] NOT NULL,
    PRIMARY KEY (consumer_group, topic, entity, clock)
);

-- The events that were decided, each once: what duplicates are known by. One that waits for a gap has its record, its version as its line
-- took it, and until when it waits at most.
CREATE TABLE IF NOT EXISTS forebay_events (
    consumer_group text        NOT NULL,
    event_key      bytea       NOT NULL,
    hash           bytea       NOT NULL,
    decision       text        NOT NULL,
    reason         text        NOT NULL,
    topic          text        NOT NULL,
    partition      integer     NOT NULL,
    entity         text        NOT NULL,
    clock          text        NOT NULL,
    decided_at     timestamptz NOT NULL DEFAULT now(),
    version        text,
    record         bytea,
    deadline       timestamptz,
    PRIMARY KEY (consumer_group, event_key),
    CHECK ((decision = 'buffered') = (record IS NOT NULL)),
    CHECK ((record IS NULL) = (deadline IS NULL) AND (record IS NULL) = (version IS NULL))
);
CREATE INDEX IF NOT EXISTS forebay_events_waiting ON forebay_events (consumer_group, topic, entity, clock) WHERE record IS NOT NULL;
CREATE INDEX IF NOT EXISTS forebay_events_deadline ON forebay_events (consumer_group, topic, partition, deadline) WHERE record IS NOT NULL;
CREATE INDEX IF NOT EXISTS forebay_events_decided ON forebay_events (consumer_group, decided_at) WHERE record IS NULL;

-- What somebody has to look at: records that could not be decided, conflicts, and events whose handler went on failing. Rows are the
-- team's to delete. record.UnpackEvent of schemas/record reads the record.
CREATE TABLE IF NOT EXISTS forebay_set_aside (
    consumer_group text        NOT NULL,
    topic          text        NOT NULL,
    partition      integer     NOT NULL,
    log_offset     bigint      NOT NULL,
    decision       text        NOT NULL,
    reason         text        NOT NULL,
    error          text        NOT NULL,
    record         bytea       NOT NULL,
    set_aside_at   timestamptz NOT NULL DEFAULT now()
);
-- Several records may have had one offset: of a topic that was created again, or of a log that was cut. The index hashes the record by itself:
-- a generated column is not published, and so can be in no replica identity.
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_index WHERE indrelid = 'forebay_set_aside'::regclass AND indexprs IS NOT NULL) THEN
        ALTER TABLE forebay_set_aside DROP CONSTRAINT IF EXISTS forebay_set_aside_pkey, REPLICA IDENTITY FULL; -- first: of two programs that run this, one waits here
        CREATE UNIQUE INDEX IF NOT EXISTS forebay_set_aside_once ON forebay_set_aside (consumer_group, topic, partition, log_offset, sha256(record));
    END IF;
END $$;
