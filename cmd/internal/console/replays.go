package console

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/api"
)

// replaysPage is the replays that were planned, the newest first.
type replaysPage struct {
	listed
	Page api.Page[api.ReplayItem]
}

func (c *Console) replays(ctx context.Context, r *http.Request) (any, error) {
	p := replaysPage{listed: listed{Query: r.URL.Query()}}
	if err := api.OnlyKnown(r, "team", "subscription", "limit", "cursor"); err != nil {
		return nil, err
	}
	n, err := limit(p.Get("limit"))
	if err != nil {
		return p, err
	}
	p.Page, err = c.API.Replays(ctx, api.ReplayFilter{Team: p.Get("team"), Subscription: p.Get("subscription"), Limit: n, Cursor: p.Get("cursor")})
	p.turn(r.URL.Path, p.Page.Next)
	return p, err
}

func replayLink(id string) string { return "/console/replays/" + url.PathEscape(id) }

// passed returns how much of its range a replay has passed, of a hundred; 0 before it was started.
func passed(i api.ReplayItem) int64 {
	if i.StartedAt == nil || i.Range.Offsets == 0 {
		return 0
	}
	return i.Range.Passed * 100 / i.Range.Offsets
}

// ran returns how many events run by a replay; none by a shadow.
func ran(i api.ReplayItem) string {
	if i.Mode == "shadow" {
		return "–"
	}
	return strconv.FormatInt(i.Applied+i.Late, 10)
}

// shownNames is how many names of a count a page shows.
const shownNames = 20

// replayPage is one replay.
type replayPage struct {
	*api.ReplayItem
	Tables []countTable
	May    string // what starting it would do
	Start  *form
	Cancel *form
}

// countTable is how many events a plan has, by something.
type countTable struct {
	ID, Of string
	Rows   []named
	More   bool
}

func (c *Console) replay(ctx context.Context, r *http.Request) (any, error) {
	if err := api.OnlyKnown(r); err != nil {
		return nil, err
	}
	return c.replayAt(ctx, r)
}

func (c *Console) replayAt(ctx context.Context, r *http.Request) (*replayPage, error) {
	item, err := c.API.Replay(ctx, r.PathValue("replay"))
	if err != nil {
		return nil, err
	}
	p := &replayPage{ReplayItem: item, May: mayRun(item)}
	for _, t := range []struct {
		id, of string
		counts map[string]int64
		rest   bool
	}{{"by-decision", "decision", item.ByDecision, false}, {"by-type", "type", item.ByType, false}, {"by-entity", "entity", item.ByEntity, item.EntityRest}} {
		if len(t.counts) > 0 {
			p.Tables = append(p.Tables, tableOf(t.id, t.of, t.counts, t.rest))
		}
	}
	switch item.State {
	case "planned":
		p.Start = formFor(ctx, access.Operate, item.Team, replayLink(item.ID)+"/start", "Start replay "+item.ID)
		fallthrough
	case "counting", "running":
		p.Cancel = formFor(ctx, access.Operate, item.Team, replayLink(item.ID)+"/cancel", "Cancel replay "+item.ID)
	}
	return p, nil
}

func tableOf(id, of string, counts map[string]int64, rest bool) countTable {
	t := countTable{ID: id, Of: of}
	for _, name := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b)) }) {
		t.Rows = append(t.Rows, named{name, counts[name]})
	}
	t.More = rest || len(t.Rows) > shownNames
	t.Rows = t.Rows[:min(shownNames, len(t.Rows))]
	return t
}

// mayRun says what a plan runs at most, and how long that takes.
func mayRun(i *api.ReplayItem) string {
	if i.Mode == "shadow" {
		return "Nothing runs: it says what would, of " + fmt.Sprint(i.Records) + " records."
	}
	text := fmt.Sprintf("%d events run, with %d actions at most", i.Runs, i.Actions)
	if i.Rate > 0 {
		text += fmt.Sprintf(", in %s at %d a second", time.Duration(i.Seconds)*time.Second, i.Rate)
	}
	return text + fmt.Sprintf("; with more than %d dead letters it ends.", i.MaxErrors)
}

// Passed is how much of its range it has passed, of a hundred.
func (p replayPage) Passed() int64 { return passed(*p.ReplayItem) }

// askReplay makes the page that starts or cancels a replay. What was started is not started again, so who sends a form twice does nothing
// twice.
func (c *Console) askReplay(verb string) func(context.Context, *http.Request) (any, error) {
	return after(func(ctx context.Context, r *http.Request, s submission) (string, error) {
		id := r.PathValue("replay")
		_, err := c.API.AskReplay(ctx, id, verb, api.ReplayRequest{Reason: s.Reason, By: s.By})
		return replayLink(id), err
	}, c.replayAt, func(p *replayPage) *form {
		if verb == "start" {
			return p.Start
		}
		return p.Cancel
	})
}
