package stream

import (
	"context"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
)

// CommandLedger is what commands need of a [ledger.Namespace], beside [Ledger].
type CommandLedger interface {
	Commands(ctx context.Context, claims []*ledger.Claim) ([]ledger.Command, error)
	Obey(ctx context.Context, c *ledger.Claim, cmd ledger.Command) (ledger.Applied, error)
}

var _ CommandLedger = (*ledger.Namespace)(nil)

// commandSweep is how often the owner looks for what people ask of it: an index that is nearly always empty.
const commandSweep = 500 * time.Millisecond

// commands obeys what is asked of the owner of the claimed partitions, between two batches, until the loop ends.
func (l *loop) commands(from CommandLedger) {
	tick := time.NewTicker(commandSweep)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-l.ctx.Done():
			return
		}
		var claims []*ledger.Claim
		l.do(l.ctx, func() {
			for _, o := range l.claims {
				claims = append(claims, o.claim)
			}
		})
		if len(claims) == 0 {
			continue
		}
		ctx, cancel := context.WithTimeout(l.ctx, observeTimeout)
		asked, err := from.Commands(ctx, claims)
		cancel()
		if err != nil && l.ctx.Err() == nil {
			l.log.Warn("commands not read; trying again", "error", err)
		}
		for _, cmd := range asked {
			l.do(l.ctx, func() { l.obey(from, cmd) })
		}
	}
}

// obey does one of them, if its partition is still claimed.
func (l *loop) obey(from CommandLedger, cmd ledger.Command) {
	for _, o := range l.claims {
		if o.claim.ID != cmd.Claim {
			continue
		}
		ctx, done := l.running.begin(l.ctx)
		a, err := from.Obey(ctx, o.claim, cmd)
		done()
		if err == nil && !a.Fenced {
			l.log.Info("command obeyed", "command", cmd.ID, "kind", cmd.Kind, "by", cmd.By, "reason", cmd.Reason, "topic", o.at.topic,
				"partition", o.at.number, "entity", cmd.Line.Entity, "events", len(a.Outcomes), "actions", len(a.Actions))
		}
		l.concluded(o, a, err)
		return
	}
}
