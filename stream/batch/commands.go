package batch

import (
	"context"
	"time"

	"github.com/forebay-io/forebay/stream/ledger"
)

// commandsAgain is how soon the ledger is asked for commands again where some were open: one of them may be put off.
const commandsAgain = 500 * time.Millisecond

// runCommands applies commands for the claimed partitions until the loop ends: when the ledger notifies, and every CommandSweep.
// Commands about events run between two batches, commands about actions in the lanes.
func (l *Loop) runCommands() {
	sweep := time.NewTimer(l.cfg.CommandSweep)
	defer sweep.Stop()
	defer l.cfg.Ledger.Listen(l.forCommands.notify)()
	for {
		select {
		case <-l.forCommands:
		case <-sweep.C:
		case <-l.ctx.Done():
			return
		}
		next := l.cfg.CommandSweep
		if l.applyCommands() {
			next = min(next, commandsAgain)
		}
		sweep.Reset(next)
	}
}

// applyCommands applies all open commands of the claims, page by page, and reports whether there were any, or may be. One that cannot be
// applied yet does not delay those after it.
func (l *Loop) applyCommands() (found bool) {
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
		found = found || err != nil || len(page) > 0
		commands := 0
		for _, cmd := range page {
			if cmd.Kind == ledger.SeekTo {
				l.do(l.ctx, func() { l.endForSeek(cmd.Claim) })
				continue
			}
			after = cmd.ID
			commands++
			if cmd.LaneSeq == 0 { // about an event
				l.do(l.ctx, func() {
					if !l.paused.Load() {
						l.applyCommand(cmd)
					}
				})
			} else {
				l.applyLaneCommand(byID[cmd.Claim], cmd)
			}
		}
		more = commands == ledger.MaxCommands
	}
	return found
}

// endForSeek ends the run of a partition of which a seek is asked: its next claim carries that out.
func (l *Loop) endForSeek(claim int32) {
	for _, p := range l.claims {
		if p.Claim.ID == claim {
			l.end(p, ErrSeek)
		}
	}
}

// applyLaneCommand hands a command about an action to the lanes.
func (l *Loop) applyLaneCommand(c *ledger.Claim, cmd ledger.Command) {
	log := l.log.With("command", cmd.ID, "kind", cmd.Kind, "by", cmd.By, "reason", cmd.Reason, "topic", c.Partition.Topic,
		"partition", c.Partition.Number, "entity", cmd.VersionLine.Entity, "lane_seq", cmd.LaneSeq)
	outcome, err := l.cfg.Lanes.ApplyCommand(l.ctx, c, cmd)
	switch {
	case err != nil && l.ctx.Err() == nil:
		log.Warn("command not applied; trying again", "error", err)
	case err == nil && outcome != "":
		log.Info("command applied", "outcome", outcome)
	}
}

// applyCommand applies a command about an event in a transaction of its own, if its partition is still claimed. What follows is as after a
// batch: new actions go to the lanes, and a lost fence or an unknown outcome ends the partition's run. It runs on the loop's goroutine.
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
				"partition", p.at().Number, "entity", cmd.VersionLine.Entity, "events", len(a.Outcomes), "actions", len(a.Actions))
		}
		l.afterTransaction(&part{of: p}, "command", a, err)
		return
	}
}
