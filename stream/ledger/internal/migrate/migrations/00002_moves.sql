-- serves: 1
-- +goose Up

-- Subscriptions that go to another ledger, or have gone there, and those that come here. While there is a row nobody runs the subscription in
-- this ledger, and no sweep touches it. Reader: Move, Namespace, Claim, sweep.
CREATE TABLE moves (
    subscription text COLLATE "C" PRIMARY KEY, -- "<team>.<subscription>"
    comes        boolean NOT NULL, -- here; else it goes away
    other        uuid NOT NULL,    -- the other ledger's identity
    other_name   text NOT NULL,    -- as the other file calls it
    began_at     timestamptz NOT NULL DEFAULT now(),
    ended_at     timestamptz,      -- of one that goes: its rows here are deleted
    -- Of one that comes: which ids here are for which of the other ledger, what that had when they were given, and which tables are copied.
    ids          jsonb,
    stood        text,
    copied       text[] COLLATE "C" NOT NULL DEFAULT '{}',
    CHECK (NOT comes OR ended_at IS NULL)
);
