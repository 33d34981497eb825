-- serves: 2
-- +goose Up

-- A destination that was told of a question is told that it has ended, too, where its type can take that back. tell_at is when, from then on.
ALTER TABLE approvals DROP CONSTRAINT IF EXISTS approvals_check;
ALTER TABLE approvals ADD COLUMN closed_at timestamptz; -- when it was told, or it is known that it needs not be
UPDATE approvals SET closed_at = now() WHERE state <> 'waiting';
CREATE INDEX approvals_unclosed ON approvals (id) WHERE state <> 'waiting' AND closed_at IS NULL AND tell_tries > 0;
