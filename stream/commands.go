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
	Listen(told func()) (stop func())
}

var _ CommandLedger = (*ledger.Namespace)(nil)

// commands obeys what is asked of the owner of the claimed partitions until the loop ends: at once where the ledger tells
// of it, and by looking where it does not. What is about events runs between two batches, what is about actions is the
// lanes'.
func (l *loop) commands(from CommandLedger) {
	tick := time.NewTicker(l.cfg.CommandSweep)
	defer tick.Stop()
	told := make(chan struct{}, 1) // never closed
	again := func() {
		select {
		case told <- struct{}{}:
		default:
		}
	}
	defer from.Listen(again)()
	for {
		select {
		case <-told:
		case <-tick.C:
		case <-l.ctx.Done():
			return
		}
		if l.obeyAll(from) {
			again()
		}
	}
}

// obeyAll obeys what is asked now, and says whether there may be more.
func (l *loop) obeyAll(from CommandLedger) (more bool) {
	var claims []*ledger.Claim
	byID := map[int32]*ledger.Claim{}
	l.do(l.ctx, func() {
		for _, o := range l.claims {
			claims = append(claims, o.claim)
			byID[o.claim.ID] = o.claim
		}
	})
	if len(claims) == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(l.ctx, observeTimeout)
	asked, err := from.Commands(ctx, claims)
	cancel()
	if err != nil && l.ctx.Err() == nil {
		l.log.Warn("commands not read; trying again", "error", err)
	}
	for _, cmd := range asked {
		if cmd.LaneSeq == 0 {
			l.do(l.ctx, func() { l.obey(from, cmd) })
		} else if l.obeyLane(byID[cmd.Claim], cmd) {
			more = len(asked) == ledger.MaxCommands
		}
	}
	return more
}

// obeyLane hands a command about an action to the lanes and says whether it has come to its end.
func (l *loop) obeyLane(c *ledger.Claim, cmd ledger.Command) bool {
	log := l.log.With("command", cmd.ID, "kind", cmd.Kind, "by", cmd.By, "reason", cmd.Reason, "topic", c.Partition.Topic,
		"partition", c.Partition.Number, "entity", cmd.Line.Entity, "lane_seq", cmd.LaneSeq)
	outcome, err := l.cfg.Lanes.Obey(l.ctx, c, cmd)
	switch {
	case err != nil && l.ctx.Err() == nil:
		log.Warn("command not obeyed; it comes again", "error", err)
	case err == nil && outcome != "":
		log.Info("command obeyed", "outcome", outcome)
		return true
	}
	return false
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
