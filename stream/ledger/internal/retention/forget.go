package retention

import "context"

// maxDeleted bounds how many rows one statement deletes, or ends: so long are they locked.
const maxDeleted = 10_000

// maxSteps bounds how many such statements a sweep runs one after the other: what is over at 3,000 a second keeps up with a sweep every five minutes.
const maxSteps = 100

// forget deletes second keys and sayings whose time has passed, and the commands, results and backfill requests of a subscription that ended
// longer ago than it keeps dead letters, up to maxSteps * maxDeleted of each: some have a row per event. Each table has an index by their end: nothing is scanned.
func (s *Sweeper) forget(ctx context.Context, subscription int32, cfg Config) error {
	for _, table := range []string{"backfills", "commands", "results"} {
		err := s.inSteps(ctx, `DELETE FROM `+table+` WHERE id = ANY (ARRAY(
			SELECT t.id FROM fences f JOIN subscriptions s ON s.id = f.subscription
			CROSS JOIN LATERAL (SELECT id FROM `+table+` WHERE fence = f.id AND ended_at <= now() - coalesce(s.keep_dead, $2) ORDER BY ended_at LIMIT $3) t
			WHERE s.id = $1 LIMIT $3))`, subscription, cfg.Dead)
		if err != nil {
			return err
		}
	}
	for _, table := range []string{"second_keys", "sayings"} {
		err := s.inSteps(ctx, `DELETE FROM `+table+` WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM `+table+` WHERE subscription = $1 AND gone_at <= now() ORDER BY gone_at LIMIT $2 FOR UPDATE SKIP LOCKED))`, subscription)
		if err != nil {
			return err
		}
	}
	return s.forgetApprovals(ctx, subscription, cfg)
}

// inSteps runs a statement that deletes or ends at most as many rows as its last parameter says, until it finds fewer, or the other subscriptions
// have waited for long enough: the next sweep goes on.
func (s *Sweeper) inSteps(ctx context.Context, sql string, args ...any) error {
	args = append(args, maxDeleted)
	for range maxSteps {
		done, err := s.read.Exec(ctx, sql, args...)
		if err != nil || done.RowsAffected() < maxDeleted {
			return err
		}
	}
	return nil
}

// forgetApprovals ends questions that nobody answered in time and whose actions do not ask any more, since a newer version has taken their place, and
// deletes approvals that ended longer ago than the subscription keeps dead letters.
func (s *Sweeper) forgetApprovals(ctx context.Context, subscription int32, cfg Config) error {
	err := s.inSteps(ctx, `UPDATE approvals SET state = 'expired', sends = '', answered_at = expires_at WHERE id = ANY (ARRAY(
		SELECT id FROM approvals WHERE state = 'waiting' AND expires_at <= now() - interval '1 minute' AND subscription = $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED))`,
		subscription)
	if err != nil {
		return err
	}
	return s.inSteps(ctx, `DELETE FROM approvals WHERE id = ANY (ARRAY(
		SELECT p.id FROM approvals p JOIN subscriptions s ON s.id = p.subscription
		WHERE p.subscription = $1 AND p.state NOT IN ('waiting', 'approved') AND p.answered_at <= now() - coalesce(s.keep_dead, $2) ORDER BY p.answered_at LIMIT $3 FOR UPDATE OF p SKIP LOCKED))`,
		subscription, cfg.Dead)
}
