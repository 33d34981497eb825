-- serves: 2
-- +goose Up

-- The number of a replay in the ledger where it ran, of a subscription that was moved here: events keep it. null: it ran here. Reader: Inbox.
ALTER TABLE replays ADD COLUMN was bigint;
