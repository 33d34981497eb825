-- Long work: a destination that answered 202 and says later what came of it.

-- +goose Up

-- processing: the destination has taken the action and its result is waited for until result_by; where silence_us is set, no
-- longer than that after its last sign of life, beat_at. Reader: Open, Quiet, Inbox.
ALTER TABLE actions
    ADD COLUMN result_by timestamptz,
    ADD COLUMN beat_at timestamptz, -- the one column that others than the owner write
    ADD COLUMN silence_us bigint CHECK (silence_us > 0),
    ADD CONSTRAINT actions_processing CHECK (status <> 'processing' OR result_by IS NOT NULL AND beat_at IS NOT NULL);

-- Statuses of other migrations stay.
-- +goose StatementBegin
DO $$
DECLARE before text;
BEGIN
    SELECT pg_get_constraintdef(oid) INTO STRICT before FROM pg_constraint
     WHERE conrelid = 'actions'::regclass AND conname = 'actions_status_check';
    ALTER TABLE actions DROP CONSTRAINT actions_status_check;
    EXECUTE 'ALTER TABLE actions ADD CONSTRAINT actions_status_check ' ||
        regexp_replace(before, '^CHECK \((.*)\)$', 'CHECK ((\1) OR status = ''processing'')');
END $$;
-- +goose StatementEnd

-- What destinations said later, one row per attempt: commands to the partition's owner, who alone writes its lanes.
-- Reader: Reports (the owner), Report (what was said before), ActionState, sweep.
CREATE TABLE results (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fence       int NOT NULL REFERENCES fences ON DELETE CASCADE,
    lane_seq    bigint NOT NULL,
    attempt     int NOT NULL CHECK (attempt > 0),
    status      text COLLATE "C" NOT NULL CHECK (status IN ('done', 'failed', 'dead_letter')),
    wait_us     bigint NOT NULL DEFAULT 0 CHECK (wait_us >= 0), -- before the next attempt, at least
    code        int NOT NULL DEFAULT 0,
    error       text NOT NULL DEFAULT '',
    response    bytea,
    digest      uuid NOT NULL, -- of what was said, to tell the same from another
    received_at timestamptz NOT NULL DEFAULT now(),
    ended_at    timestamptz,
    -- applied: it was the attempt's end; late: the action had ended, or was attempted anew, and it changed nothing.
    outcome     text COLLATE "C" CHECK (outcome IN ('applied', 'late')),
    UNIQUE (fence, lane_seq, attempt),
    CHECK ((ended_at IS NULL) = (outcome IS NULL))
);
CREATE INDEX results_open ON results (fence, id) WHERE ended_at IS NULL;
CREATE INDEX results_ended ON results (fence, ended_at) WHERE ended_at IS NOT NULL;
