-- serves: 1
-- +goose Up

-- A foreign key is a query for every row: a third of what a second key costs. Whoever writes one holds a fence of its subscription in the same
-- transaction, and Move deletes second keys before their subscription.
ALTER TABLE second_keys DROP CONSTRAINT IF EXISTS second_keys_subscription_fkey;
