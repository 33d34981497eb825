-- backlog: latest. What a newer version has overtaken before it was ever tried ends as superseded.

-- +goose Up

-- Whether the event's payload is a delta; null: nobody has written it down, since the subscription's backlog was not latest.
-- Reader: Open.
ALTER TABLE events ADD COLUMN delta boolean;

-- The actions of the row were superseded, and never tried. Reader: Inbox.
ALTER TABLE completions ADD COLUMN superseded boolean NOT NULL DEFAULT false;

-- The same for actions that have a row. What other migrations say of other statuses stays.
-- +goose StatementBegin
DO $$
DECLARE c record;
BEGIN
    FOR c IN SELECT conname, pg_get_constraintdef(oid) AS before FROM pg_constraint
              WHERE conrelid = 'actions'::regclass AND contype = 'c' AND pg_get_constraintdef(oid) ~ '\ystatus\y'
                AND pg_get_constraintdef(oid) !~ 'result_by|next_at' LOOP
        EXECUTE format('ALTER TABLE actions DROP CONSTRAINT %I', c.conname);
        EXECUTE format('ALTER TABLE actions ADD CONSTRAINT %I ', c.conname) ||
            regexp_replace(c.before, '^CHECK \((.*)\)$', 'CHECK (status = ''superseded'' OR (\1))');
    END LOOP;
END $$;
-- +goose StatementEnd
ALTER TABLE actions ADD CONSTRAINT actions_superseded
    CHECK (status <> 'superseded' OR NOT open AND finished_at IS NOT NULL AND attempts = 0);
