-- Attempts are found by the trace that their calls were part of.

-- +goose Up

-- The event's W3C trace id; null: it has none. Reader: Inbox.
ALTER TABLE attempts ADD COLUMN trace uuid;
