-- A topic that a subscription has left keeps no dedupe window.

-- +goose Up

-- When the subscription went over to another topic (HandOver); a later claim of a partition is a return. Reader: sweep.
ALTER TABLE topics ADD COLUMN left_at timestamptz;
