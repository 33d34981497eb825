-- serves: 2
-- +goose Up

-- Of a subscription that was moved here: when that move began, as the mark in the ledger that it left says. Reader: Move.
ALTER TABLE subscriptions ADD COLUMN move_began timestamptz;
