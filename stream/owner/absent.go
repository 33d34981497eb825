package owner

import (
	"context"
	"fmt"
	"slices"

	"github.com/forebay-io/forebay/stream/internal/retry"
)

// A process that was killed stays a member of its group until its session times out, and its partitions with it. The ledger knows earlier that
// it is gone (see ledger.Namespace.Absent), and whoever is told takes its member out of the group, which needs no right but the member's own.

// removeAbsent takes members out of the group whose processes are gone, until ctx is done. This process's own is among them where others have
// taken it for gone, since it had lost the ledger: it does not act any more as that member, and joins again as another.
func (o *Owner) removeAbsent(ctx context.Context) {
	told := make(chan []string, 1) // never closed
	defer o.cfg.Ledger.Absent(func(members []string) {
		select {
		case told <- members:
		default: // it is told again
		}
	})()
	defer o.cfg.Ledger.Left(func() {
		o.left.Store(true)
		o.pulse.beatNow()
	})()
	var failed []string // and logged
	for {
		select {
		case <-ctx.Done():
			return
		case members := <-told:
			for _, id := range members {
				err := o.remove(ctx, id)
				if err != nil && ctx.Err() == nil && !slices.Contains(failed, id) {
					failed = append(failed, id)
					o.log.Warn("a member whose process is gone stays in the group until this works, or for its session timeout", "member", id, "error", err)
				}
			}
		}
	}
}

// remove takes a member out of the group, and forgets it.
func (o *Owner) remove(ctx context.Context, member string) error {
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	if err := o.broker.remove(ctx, member); err != nil {
		return err
	}
	o.log.Info("taken out of the group", "member", member)
	return o.cfg.Ledger.ForgetMember(ctx, member)
}

// exit forgets this process's member, which has left the group.
func (o *Owner) exit(ctx context.Context, member string) {
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout/2)
	defer cancel()
	o.cfg.Ledger.Enter("")
	if err := o.cfg.Ledger.ForgetMember(ctx, member); err != nil {
		o.log.Info("the member that has left is forgotten by another process", "error", err)
	}
}

// quits takes this process's member out of the group where nobody else could, and reports whether it does: the member has joined, and the process has
// lost the ledger before that knew of the member. It can claim nothing, and would keep the partitions that it is given.
func (o *Owner) quits(ctx context.Context, s session) bool {
	if !o.pulse.quitting(s) {
		if !o.cfg.Ledger.Unknown(s.member) {
			return false
		}
		asking, cancel := context.WithTimeout(ctx, o.cfg.SessionTimeout/4) // half of it is all that this heartbeat has
		err := askLedger(asking, o.cfg.Ledger)
		cancel()
		if o.silent++; err == nil {
			o.silent = 0
		}
		if o.silent < 2 || ctx.Err() != nil { // one answer that is missing says little
			return false
		}
		o.log.Warn("leaves the group: the ledger does not answer, and does not know yet of this member", "member", s.member, "error", err)
		o.pulse.quit(s.member)
	}
	if err := o.broker.remove(ctx, s.member); err != nil {
		o.log.Warn("group not left; trying again", "member", s.member, "error", err)
	}
	return true
}

// askLedger returns nil if the ledger answers.
func askLedger(ctx context.Context, l Ledger) error {
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	_, err := l.Began(ctx)
	return err
}

// awaitLedger waits until the ledger answers, or the process stops. kgo joins again only after that.
func (o *claimer) awaitLedger() {
	var wait retry.Backoff
	for o.joins.Err() == nil {
		err := askLedger(o.joins, o.cfg.Ledger)
		if err == nil {
			return
		}
		if o.joins.Err() == nil {
			o.status.setGroupError(fmt.Errorf("it is joined again when the ledger answers: %w", err))
			o.log.Warn("the group is joined again when the ledger answers; trying again", "error", err)
			wait.Sleep(o.joins)
		}
	}
}
