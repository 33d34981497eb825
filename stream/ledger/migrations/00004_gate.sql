-- What the gate says at full depth: versions that are texts, events set aside for a person, dead letters of gaps, backfills.

-- +goose Up

-- Version.Word; empty: the version is a number.
ALTER TABLE events ADD COLUMN word text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE asides ADD COLUMN word text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE lines ADD COLUMN word text COLLATE "C" NOT NULL DEFAULT '';

-- held: set aside for a person, alone; the gate does not know of it any more. Reader: Release (commands), Inbox.
ALTER TABLE buffer DROP CONSTRAINT buffer_decision_check;
ALTER TABLE buffer ADD CONSTRAINT buffer_decision_check CHECK (decision IN ('buffered', 'parked', 'held'));
ALTER TABLE buffer DROP CONSTRAINT buffer_check;
ALTER TABLE buffer ADD CONSTRAINT buffer_check CHECK ((deadline IS NULL) = (decision <> 'buffered'));
ALTER TABLE buffer
    ADD COLUMN word text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN backfill boolean NOT NULL DEFAULT false, -- a synthetic event
    ADD COLUMN stage text COLLATE "C" NOT NULL DEFAULT '' CHECK (stage IN ('', 'backfilling')),
    ADD COLUMN buffered_at timestamptz NOT NULL DEFAULT now(); -- for the cap by age

-- Questions for what is missing on a line, put by the batch that found it missing. Reader: Backfills (the owner), Inbox.
CREATE TABLE backfills (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fence       int NOT NULL REFERENCES fences ON DELETE CASCADE,
    entity      text COLLATE "C" NOT NULL,
    clock       text COLLATE "C" NOT NULL,
    kind        text COLLATE "C" NOT NULL,
    from_value  bigint NOT NULL,
    to_value    bigint NOT NULL,
    reason      text COLLATE "C" NOT NULL,
    source      text COLLATE "C" NOT NULL,
    asked_at    timestamptz NOT NULL DEFAULT now(),
    ended_at    timestamptz,
    -- Why it failed; empty: it did not.
    failure     text COLLATE "C",
    detail      text,
    code        int,
    produced    int,
    CHECK ((ended_at IS NULL) = (failure IS NULL))
);
CREATE UNIQUE INDEX backfills_open ON backfills (fence, entity, clock) WHERE ended_at IS NULL;
CREATE INDEX backfills_by_line ON backfills (fence, entity, clock, id);

-- What people ask of a partition's owner, who alone writes its gate and lanes. Reader: Commands (the owner), CommandStatus.
CREATE TABLE commands (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fence       int NOT NULL REFERENCES fences ON DELETE CASCADE,
    kind        text COLLATE "C" NOT NULL CHECK (kind IN ('release', 'discard')),
    log_offset  bigint NOT NULL, -- of the event in the buffer
    event_key   uuid NOT NULL,
    entity      text COLLATE "C" NOT NULL,
    clock       text COLLATE "C" NOT NULL,
    asked_by    text NOT NULL,
    reason      text NOT NULL CHECK (reason <> ''),
    asked_at    timestamptz NOT NULL DEFAULT now(),
    ended_at    timestamptz,
    outcome     text CHECK (outcome <> ''),
    epoch       bigint, -- of the claim that obeyed
    CHECK ((ended_at IS NULL) = (outcome IS NULL) AND (ended_at IS NULL) = (epoch IS NULL))
);
CREATE INDEX commands_open ON commands (fence, id) WHERE ended_at IS NULL;
