-- serves: 2
-- +goose Up

-- Of an alert that was told and has ended: when a process has last said that it tells the end. The row goes once somebody was told; where that
-- process is silent, another tells it. told_at lies in the past while a beginning is being told: it is due again a little later, unless a receiver takes it.
ALTER TABLE alerts_told ADD COLUMN ended_at timestamptz;
