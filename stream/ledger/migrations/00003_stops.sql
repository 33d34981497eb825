-- Partitions that stand still until a person looks, and what was accepted.

-- +goose Up

-- What a partition was stopped for. An acceptance covers exactly the row that it is in: its kind, topic id and offsets.
-- The claim that goes on ends it, however it came to go on. Reader: Claim (a stop stands until it is accepted or the
-- position is moved, also when the log hides it by growing again), Stops (status views), Accept.
CREATE TABLE stops (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subscription    int NOT NULL REFERENCES subscriptions ON DELETE CASCADE,
    topic           text COLLATE "C" NOT NULL,
    topic_id        uuid NOT NULL,
    partition       int NOT NULL CHECK (partition >= 0),
    kind            text COLLATE "C" NOT NULL CHECK (kind IN ('below_log_start', 'above_log_end', 'truncated',
                    'topic_recreated', 'ledger_behind', 'dedupe_forgotten')),
    -- The offsets concerned, [from, to), and where the partition goes on once they are accepted.
    from_offset     bigint NOT NULL,
    to_offset       bigint NOT NULL,
    resume_offset   bigint NOT NULL CHECK (resume_offset >= 0),
    records         bigint CHECK (records >= 0), -- null: nobody can count them
    -- Between which of the broker's append times they lie, as well as could be told; null: not known.
    first_at        timestamptz,
    last_at         timestamptz,
    detail          text NOT NULL,
    found_at        timestamptz NOT NULL DEFAULT now(),
    found_by        text NOT NULL,
    accepted_at     timestamptz,
    accepted_by     text,
    accepted_reason text CHECK (accepted_reason <> ''),
    ended_at        timestamptz,
    -- accepted: the claim rested on the acceptance; moved: it went on without, after a seek or a mend of the log;
    -- replaced: another stop was found.
    outcome         text COLLATE "C" CHECK (outcome IN ('accepted', 'moved', 'replaced')),
    ended_epoch     bigint, -- of the claim that ended it
    CHECK (from_offset <= to_offset OR kind = 'topic_recreated'),
    CHECK ((accepted_at IS NULL) = (accepted_by IS NULL) AND (accepted_at IS NULL) = (accepted_reason IS NULL)),
    CHECK ((ended_at IS NULL) = (outcome IS NULL)),
    CHECK (outcome IS DISTINCT FROM 'accepted' OR accepted_at IS NOT NULL)
);
CREATE UNIQUE INDEX stops_open ON stops (subscription, topic, partition) WHERE ended_at IS NULL;
