package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
)

// replayPage is what a replay of a dead letter or of a group would do; after it was asked for, what became of it.
type replayPage struct {
	Action, Group string                // what is replayed: the one or the other
	One           *api.DeadLetterDetail // the dead letter, where it is one
	Rows          []replayRow
	Will          int    // how many are replayed, or were
	Behind        int64  // how many events wait behind them, at least
	Stale         int    // how many of those did not run: newer ones of their entities had been started
	LeftOut       int    // how many are not
	More          bool   // the group has more than are replayed at once
	Until         string // dead letters that died later are not meant
	Reason, By    string
	Force         bool
	Asked         bool // it was done; else this is a dry run
}

// replayRow is one dead letter of a replay.
type replayRow struct {
	api.DeadLetterItem
	State  string // of api.DeadLetterAnswer; empty: it is left out
	Detail string // what a replay does or did; of one that is left out, why
}

// maxReplay is how many dead letters are replayed at once: the person who asked waits for the answer.
const maxReplay = 200

// planReplay says what a replay would do, and does nothing.
func (c *Console) planReplay(ctx context.Context, r *http.Request) (any, error) {
	if err := onlyKnown(r, "action", "group"); err != nil {
		return nil, err
	}
	q := r.URL.Query()
	p := &replayPage{Action: q.Get("action"), Group: q.Get("group")}
	items, err := c.chosen(ctx, p)
	if err != nil {
		return nil, err
	}
	var until time.Time
	for i := range items {
		if items[i].DiedAt.After(until) {
			until = items[i].DiedAt
		}
	}
	p.Until = until.Format(time.RFC3339Nano)
	return p, c.ask(ctx, p, items, api.DeadLetterRequest{DryRun: true})
}

// replay replays what the form names, as far as it had died when the form was made: who sends a form twice replays nothing again.
func (c *Console) replay(ctx context.Context, r *http.Request) (any, error) {
	if err := r.ParseForm(); err != nil {
		return nil, schemas.Errorf(schemas.Invalid, "", "the form cannot be read: %w", err)
	}
	f := r.PostForm
	p := &replayPage{Action: f.Get("action"), Group: f.Get("group"), Until: f.Get("until"), Reason: strings.TrimSpace(f.Get("reason")), By: strings.TrimSpace(f.Get("by"))}
	p.Force = f.Get("force") != "" && p.Action != "" // of a group, nobody has looked at each
	until, err := time.Parse(time.RFC3339Nano, p.Until)
	if err != nil {
		return nil, schemas.Errorf(schemas.Invalid, "", "the form has no time until which it holds: begin with the dead letters")
	}
	items, err := c.chosen(ctx, p)
	if err != nil {
		return nil, err
	}
	kept := items[:0:0]
	for _, i := range items {
		if i.DiedAt.After(until) {
			p.Rows, p.LeftOut = append(p.Rows, replayRow{i, "", "it died after this was planned: look at it first"}), p.LeftOut+1
			continue
		}
		kept = append(kept, i)
	}
	if p.Reason == "" {
		err := c.ask(ctx, p, kept, api.DeadLetterRequest{DryRun: true})
		return p, cmp.Or(err, error(schemas.Errorf(schemas.Invalid, "", "the reason is missing: it is kept, with the name of who asks and the time")))
	}
	p.Asked = true
	return p, c.ask(ctx, p, kept, api.DeadLetterRequest{Reason: p.Reason, By: cmp.Or(p.By, "console"), Force: p.Force, Watch: p.One != nil})
}

// chosen returns the dead letters that a replay is about, in lane order.
func (c *Console) chosen(ctx context.Context, p *replayPage) ([]api.DeadLetterItem, error) {
	switch {
	case p.Action == "" && p.Group == "" || p.Action != "" && p.Group != "":
		return nil, schemas.Errorf(schemas.Invalid, "", "either an action or a group is replayed")
	case p.Action != "":
		d, err := c.API.DeadLetter(ctx, p.Action)
		if err != nil {
			return nil, err
		}
		p.One = d
		return []api.DeadLetterItem{d.DeadLetterItem}, nil
	}
	page, err := c.API.DeadLetters(ctx, api.DeadLetterFilter{Group: p.Group, Limit: maxReplay})
	p.More = page.Next != ""
	return page.Items, err
}

// ask asks for the replay of each, and notes what became of it. Of a group, it leaves out what a person should look at first. It waits for the
// owner's answer with the last one of each partition: an owner does what it is asked in order.
func (c *Console) ask(ctx context.Context, p *replayPage, items []api.DeadLetterItem, req api.DeadLetterRequest) error {
	last := map[string]int{}
	for n := range items {
		last[partitionOf(&items[n])] = n
	}
	for n, i := range items {
		row := replayRow{DeadLetterItem: i}
		if row.Detail = leftOut(p, &i); row.Detail == "" {
			req.NoWait = last[partitionOf(&i)] != n
			answer, err := c.API.AskDeadLetter(ctx, i.ID, api.VerbReplay, req)
			switch kind := schemas.KindOf(err); {
			case err == nil:
				if row.State, row.Detail = answer.State, answer.Detail; row.State == api.StateStale {
					p.Stale++
				}
			case kind == schemas.Conflict || kind == schemas.NotFound || kind == schemas.Invalid:
				row.Detail = err.Error()
			default:
				p.Rows = append(p.Rows, replayRow{DeadLetterItem: i, Detail: "not reached"})
				return fmt.Errorf("%d of %d were reached: %w", n, len(items), err)
			}
		}
		if row.State == "" {
			p.LeftOut++
		} else {
			p.Will++
			if i.Behind != nil {
				p.Behind += *i.Behind
			}
		}
		p.Rows = append(p.Rows, row)
	}
	return nil
}

func partitionOf(i *api.DeadLetterItem) string {
	return fmt.Sprintf("%s.%s %s/%d", i.Team, i.Subscription, i.Topic, i.Partition)
}

// leftOut returns why a replay by group leaves a dead letter out, as `forebay dlq replay --group` does; empty if it does not.
func leftOut(p *replayPage, i *api.DeadLetterItem) string {
	switch {
	case p.One != nil:
		return ""
	case i.Flagged:
		return "it died three times or more: look at it first, and replay it by itself"
	case i.Status == "unknown":
		return "its outcome is unknown: look at the destination first, then `forebay dlq resolve`"
	}
	return ""
}
