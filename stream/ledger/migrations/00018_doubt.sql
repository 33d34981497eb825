-- What may have been attempted without a word of it in the ledger.

-- +goose Up

-- An owner that did not release its fence may have attempted the first open action of each entity and not recorded it. Of those
-- below doubt_to this is so since doubt_at; a release keeps both until all of them are recorded. Reader: Claim.
ALTER TABLE fences
    ADD COLUMN doubt_to bigint NOT NULL DEFAULT 0,
    ADD COLUMN doubt_at timestamptz;

-- doubt_end: an attempt may have been made before the first that is recorded, and was over by then. twice: whoever had it run
-- again knows that it may be done twice. Reader: Open.
ALTER TABLE actions
    ADD COLUMN doubt_end timestamptz,
    ADD COLUMN twice boolean NOT NULL DEFAULT false;
