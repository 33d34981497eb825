-- A person's word on quarantined records, and how long each subscription keeps what has ended.

-- +goose Up

-- When the record was produced again, by whose word and why; null: it was not. Reader: Redrive, Inbox.
ALTER TABLE asides
    ADD COLUMN redriven_at timestamptz,
    ADD COLUMN redriven_by text COLLATE "C",
    ADD COLUMN redriven_reason text,
    ADD CONSTRAINT asides_redriven CHECK ((redriven_at IS NULL) = (redriven_by IS NULL) AND (redriven_at IS NULL) = (redriven_reason IS NULL));

-- How long finished and dead actions stay readable, with what belongs to them; null: as the sweep is told. Reader: sweep.
ALTER TABLE subscriptions
    ADD COLUMN keep_done interval CHECK (keep_done > interval '0'),
    ADD COLUMN keep_dead interval CHECK (keep_dead > interval '0');

-- Reader: sweep.
CREATE INDEX backfills_ended ON backfills (fence, ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX commands_ended ON commands (fence, ended_at) WHERE ended_at IS NOT NULL;
