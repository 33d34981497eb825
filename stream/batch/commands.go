package batch

import (
	"context"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
)

// runCommands applies commands for the claimed partitions until the loop ends: when the ledger notifies, and every CommandSweep.
// Commands about events run between two batches, commands about actions in the lanes.
func (l *Loop) runCommands() {
	tick := time.NewTicker(l.cfg.CommandSweep)
	defer tick.Stop()
	notified := make(chan struct{}, 1) // never closed
	defer l.cfg.Ledger.Listen(func() {
		select {
		case notified <- struct{}{}:
		default:
		}
	})()
	for {
		select {
		case <-notified:
		case <-tick.C:
		case <-l.ctx.Done():
			return
		}
		l.applyCommands()
	}
}

// applyCommands applies all open commands of the claims, page by page. One that cannot be applied yet does not delay those after it.
func (l *Loop) applyCommands() {
	claims := l.Claims()
	byID := make(map[int32]*ledger.Claim, len(claims))
	for _, c := range claims {
		byID[c.ID] = c
	}
	for after, more := int64(0), len(claims) > 0; more; {
		ctx, cancel := context.WithTimeout(l.ctx, observeTimeout)
		page, err := l.cfg.Ledger.Commands(ctx, claims, after)
		cancel()
		if err != nil && l.ctx.Err() == nil {
			l.log.Warn("commands not read; trying again", "error", err)
		}
		for _, cmd := range page {
			after = cmd.ID
			if cmd.LaneSeq == 0 { // about an event
				l.do(l.ctx, func() { l.applyCommand(cmd) })
			} else {
				l.applyLaneCommand(byID[cmd.Claim], cmd)
			}
		}
		more = len(page) == ledger.MaxCommands
	}
}

// applyLaneCommand hands a command about an action to the lanes.
func (l *Loop) applyLaneCommand(c *ledger.Claim, cmd ledger.Command) {
	log := l.log.With("command", cmd.ID, "kind", cmd.Kind, "by", cmd.By, "reason", cmd.Reason, "topic", c.Partition.Topic,
		"partition", c.Partition.Number, "entity", cmd.Line.Entity, "lane_seq", cmd.LaneSeq)
	outcome, err := l.cfg.Lanes.ApplyCommand(l.ctx, c, cmd)
	switch {
	case err != nil && l.ctx.Err() == nil:
		log.Warn("command not applied; trying again", "error", err)
	case err == nil && outcome != "":
		log.Info("command applied", "outcome", outcome)
	}
}

// applyCommand applies a command about an event, if its partition is still claimed. It runs on the loop's goroutine.
func (l *Loop) applyCommand(cmd ledger.Command) {
	for _, p := range l.claims {
		if p.Claim.ID != cmd.Claim {
			continue
		}
		ctx, done := l.running.start(l.ctx)
		a, err := l.cfg.Ledger.ApplyCommand(ctx, p.Claim, cmd)
		done()
		if err == nil && !a.Fenced {
			l.log.Info("command applied", "command", cmd.ID, "kind", cmd.Kind, "by", cmd.By, "reason", cmd.Reason, "topic", p.at().Topic,
				"partition", p.at().Number, "entity", cmd.Line.Entity, "events", len(a.Outcomes), "actions", len(a.Actions))
		}
		l.afterTransaction(p, "command", a, err)
		return
	}
}
