package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
)

// verbWords are what a page says of what can be asked of dead letters.
type verbWords struct{ Title, Will, Wills, Behind, Asked, After, Button string }

// verbs are what can be asked of dead letters.
var verbs = map[string]verbWords{
	api.VerbReplay: {"Replay dead letters", "is replayed", "are replayed", "wait behind, and go on in order", "asked to run again", "Each runs in its turn; the page of its event says what comes of it.", "Replay"},
	api.VerbDiscard: {"Discard dead letters", "is discarded for good", "are discarded for good", "wait behind, and go on without it", "asked to be discarded",
		"None of them runs again; what stood behind goes on.", "Discard"},
	api.VerbResolve: {"Resolve dead letters", "counts as done, and does not run", "count as done, and do not run", "wait behind, and go on", "asked to count as done",
		"Look at the destination first: this says that it has acted.", "Resolve"},
}

// dlqAskPage is what asking something of a dead letter or of a group would do; after it was asked, what became of it.
type dlqAskPage struct {
	Verb     string
	Words    verbWords
	Others   []string              // the verbs that can be asked instead
	Action   string                // the one that it is about; empty: those of a group
	Of       api.DeadLetterFilter  // the group, under which filters, and where in it the page begins: behind what was looked at before
	One      *api.DeadLetterDetail // the dead letter, where it is one
	Rows     []dlqAskRow
	Will     int    // how many it is about, or was
	Behind   int64  // how many events wait behind them, at least
	Stale    int    // how many of those did not run: their entities had newer versions
	LeftOut  int    // how many it is not about
	Next     string // where what it has not looked at begins; empty: it has looked at the whole group
	Full     bool   // it has found as many as are asked at once; else it has looked through as much of the group as it may
	Until    string // dead letters that died later are not meant
	Asked    bool   // it was done; else this is a dry run
	Form     *form
	Progress string // link to how far it is
}

// Link leads to what another verb would do with the same.
func (p dlqAskPage) Link(verb string) string {
	if p.Action != "" {
		return "/console/dlq/" + verb + "?" + url.Values{"action": {p.Action}}.Encode()
	}
	return p.behind(verb, p.Of.Cursor)
}

// Further leads to what the same verb would do with those of the group that were not looked at.
func (p dlqAskPage) Further() string { return p.behind(p.Verb, p.Next) }

func (p dlqAskPage) behind(verb, cursor string) string {
	p.Of.Cursor = cursor
	return deadLettersLink("/console/dlq/"+verb, p.Of)
}

// Flags are those with which `forebay dlq` asks the same of the whole group.
func (p dlqAskPage) Flags() string {
	var flags strings.Builder
	for _, f := range p.filters() {
		flags.WriteString(" --" + f.Name + " " + inQuotes(f.Value))
	}
	return flags.String()
}

// Narrowed are the flags without the group's; empty: the whole group is meant.
func (p dlqAskPage) Narrowed() string {
	p.Of.Group = ""
	return strings.TrimSpace(p.Flags())
}

// filters are those that are set, the group among them.
func (p dlqAskPage) filters() (set []field) {
	of := filtersOf(p.Of)
	for _, name := range deadFilters {
		if of.Has(name) {
			set = append(set, field{name, of.Get(name)})
		}
	}
	return set
}

// dlqAskRow is one dead letter of them.
type dlqAskRow struct {
	api.DeadLetterItem
	State  string // of api.DeadLetterAnswer; empty: it is left out
	Detail string // what is done with it, or was; of one that is left out, why
}

const (
	// maxAsked is how many dead letters are asked at once: the person who asks waits for the answer.
	maxAsked = 200
	// maxLooks is how many pages of maxAsked are looked through for those that can be asked.
	maxLooks = 10
)

func newAskPage(verb string, q url.Values) (p *dlqAskPage, err error) {
	p = &dlqAskPage{Verb: verb, Words: verbs[verb], Action: q.Get("action")}
	for _, other := range []string{api.VerbReplay, api.VerbDiscard, api.VerbResolve} {
		if other != verb {
			p.Others = append(p.Others, other)
		}
	}
	p.Of, err = deadLetterFilter(q)
	return p, err
}

// planAsk makes the page that says what asking would do, and does nothing.
func (c *Console) planAsk(verb string) func(context.Context, *http.Request) (any, error) {
	return func(ctx context.Context, r *http.Request) (any, error) {
		if err := api.OnlyKnown(r, append(deadFilters, "action", "cursor")...); err != nil {
			return nil, err
		}
		p, err := newAskPage(verb, r.URL.Query())
		if err != nil {
			return nil, err
		}
		items, left, err := c.chosen(ctx, p)
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
		if who := api.Asks(ctx); !who.May(access.Respond) {
			for _, i := range items {
				p.leave(dlqAskRow{i, "", "the role " + who.Role + " may look at it, and no more"})
			}
			p.leave(left...)
			return p, nil
		}
		err = c.ask(ctx, p, items, api.DeadLetterRequest{DryRun: true})
		p.leave(left...)
		p.form(ctx, submission{})
		return p, err
	}
}

// leave notes dead letters that are left out. The page shows maxAsked of them at most.
func (p *dlqAskPage) leave(rows ...dlqAskRow) {
	for _, row := range rows {
		if p.LeftOut++; p.LeftOut <= maxAsked {
			p.Rows = append(p.Rows, row)
		}
	}
}

// form sets the form that confirms what the page announces, with what was filled in when it was sent before.
func (p *dlqAskPage) form(ctx context.Context, s submission) {
	if p.Will == 0 {
		return
	}
	what := "dead letters"
	if p.Will == 1 {
		what = "dead letter"
	}
	team := ""
	var ids []string
	for _, row := range p.Rows {
		if row.State != "" {
			team, ids = row.Team, append(ids, row.ID) // the API has answered for this row, so who asks may see it; all are of one team
		}
	}
	p.Form = formFor(ctx, access.Respond, team, "/console/dlq/"+p.Verb, fmt.Sprintf("%s %d %s", p.Words.Button, p.Will, what), field{"action", p.Action}, field{"until", p.Until})
	if p.Form == nil { // who asks may only look
		return
	}
	if p.Action == "" {
		p.Form.Hidden = append(append(p.Form.Hidden, p.filters()...), field{"ids", strings.Join(ids, ",")}, field{"cursor", p.Of.Cursor})
	}
	p.Form.Reason, p.Form.By = s.Reason, s.Get("by")
	if p.One != nil && p.Verb == api.VerbReplay {
		p.Form.Checks = []check{{"force", "Force: run it even though its entity has a newer version", s.Get("force") != ""}}
	}
}

// askAll asks for what the form was made for, as far as it is still dead and has not died again since: what the page did not show is not
// meant, and who sends a form twice asks for nothing again.
func (c *Console) askAll(verb string) func(context.Context, *http.Request) (any, error) {
	return func(ctx context.Context, r *http.Request) (any, error) {
		s, err := posted(r)
		if err != nil {
			return nil, err
		}
		p, err := newAskPage(verb, s.Values)
		if err != nil {
			return nil, err
		}
		p.Until = s.Get("until")
		until, err := time.Parse(time.RFC3339Nano, p.Until)
		if err != nil {
			return nil, schemas.Errorf(schemas.Invalid, "", "the form has no time until which it holds: begin with the dead letters")
		}
		var items []api.DeadLetterItem
		if p.Of.Group != "" && p.Action == "" {
			items, err = c.planned(ctx, p, s.Get("ids"))
		} else {
			items, _, err = c.chosen(ctx, p)
		}
		if err != nil {
			return nil, err
		}
		kept := items[:0:0]
		for _, i := range items {
			if i.DiedAt.After(until) {
				p.leave(dlqAskRow{i, "", "it died after this was planned: look at it first"})
				continue
			}
			kept = append(kept, i)
		}
		if s.Reason == "" {
			err := c.ask(ctx, p, kept, api.DeadLetterRequest{DryRun: true})
			p.form(ctx, s)
			return p, cmp.Or(err, error(schemas.Errorf(schemas.Invalid, "", "the reason is missing: it is kept, with the name of who asks and the time")))
		}
		p.Asked = true
		force := s.Get("force") != "" && p.One != nil && verb == api.VerbReplay // of a group, nobody has looked at each
		err = c.ask(ctx, p, kept, api.DeadLetterRequest{Reason: s.Reason, By: s.By, Force: force, Watch: p.One != nil && verb == api.VerbReplay})
		if p.Action == "" {
			p.Progress = p.progressLink(until)
		}
		return p, err
	}
}

// chosen returns the dead letters that a page is about, in lane order, and those of them that it leaves out at once.
func (c *Console) chosen(ctx context.Context, p *dlqAskPage) (items []api.DeadLetterItem, left []dlqAskRow, err error) {
	switch {
	case p.Action == "" && p.Of.Group == "" || p.Action != "" && len(p.filters()) > 0:
		return nil, nil, schemas.Errorf(schemas.Invalid, "", "either an action or a group is meant")
	case p.Action != "":
		d, err := c.API.DeadLetter(ctx, p.Action)
		if err != nil {
			return nil, nil, err
		}
		if p.One = d; !d.Dead() {
			p.Others = nil
		}
		return []api.DeadLetterItem{d.DeadLetterItem}, nil, nil
	}
	return c.ofGroup(ctx, p)
}

// ofGroup looks through a group until maxAsked are found that can be asked, or maxLooks pages were read. Left are those that cannot be; p.Next
// says where the rest of the group begins. Where a page of the list has more than are asked, it begins with that page.
func (c *Console) ofGroup(ctx context.Context, p *dlqAskPage) (items []api.DeadLetterItem, left []dlqAskRow, err error) {
	p.Next = p.Of.Cursor
	for range maxLooks {
		f := p.Of
		f.Limit, f.Cursor = maxAsked, p.Next
		page, err := c.API.DeadLetters(ctx, f)
		if err != nil {
			return nil, nil, err
		}
		for _, i := range page.Items {
			p.Of.Group = i.Group // as typed, it may be cut off: further pages need the whole
			if why := leftOut(p, &i); why != "" {
				left = append(left, dlqAskRow{i, "", why})
				continue
			}
			if p.Full = len(items) == maxAsked; p.Full {
				return items, left, nil
			}
			items = append(items, i)
		}
		p.Next, p.Full = page.Next, len(items) == maxAsked
		if p.Next == "" || p.Full {
			break
		}
	}
	return items, left, nil
}

// planned returns those dead letters that a form names by their ids, a comma between them, in its order; those that are none any more are
// left out.
func (c *Console) planned(ctx context.Context, p *dlqAskPage, ids string) (list []api.DeadLetterItem, err error) {
	named := strings.Split(ids, ",")
	if ids == "" || len(named) > maxAsked {
		return nil, schemas.Errorf(schemas.Invalid, "", "the form does not say which dead letters are meant, or names more than %d: begin with the dead letters", maxAsked)
	}
	now, _, err := c.ofGroup(ctx, p)
	if schemas.KindOf(err) == schemas.NotFound { // the group has none any more
		p.Next, err = "", nil
	}
	if err != nil {
		return nil, err
	}
	for n, id := range named {
		if slices.Contains(named[:n], id) {
			continue
		}
		if at := slices.IndexFunc(now, func(i api.DeadLetterItem) bool { return i.ID == id }); at >= 0 {
			list = append(list, now[at])
			continue
		}
		switch d, err := c.API.DeadLetter(ctx, id); {
		case err == nil:
			list = append(list, d.DeadLetterItem)
		case schemas.KindOf(err) == schemas.NotFound:
			p.leave(dlqAskRow{api.DeadLetterItem{ID: id}, "", "it is gone: somebody has asked for it since this was planned, or it has ended"})
		default:
			return nil, err
		}
	}
	return list, nil
}

// ask asks for each, and notes what became of it. Of a group, it leaves out what a person should look at first. It waits for the owner's
// answer with the last one of each partition that it asks for: an owner does what it is asked in order.
func (c *Console) ask(ctx context.Context, p *dlqAskPage, items []api.DeadLetterItem, req api.DeadLetterRequest) error {
	last := map[string]int{}
	for n := range items {
		if leftOut(p, &items[n]) == "" {
			last[partitionOf(&items[n])] = n
		}
	}
	for n, i := range items {
		row := dlqAskRow{DeadLetterItem: i}
		if row.Detail = leftOut(p, &i); row.Detail == "" {
			req.NoWait = last[partitionOf(&i)] != n
			answer, err := c.API.AskDeadLetter(ctx, i.ID, p.Verb, req)
			switch kind := schemas.KindOf(err); {
			case err == nil:
				if row.State, row.Detail = answer.State, answer.Detail; row.State == api.StateStale {
					p.Stale++
				}
			case kind == schemas.Conflict || kind == schemas.NotFound || kind == schemas.Invalid:
				row.Detail = err.Error()
			default:
				p.Rows = append(p.Rows, dlqAskRow{DeadLetterItem: i, Detail: "not reached"})
				return fmt.Errorf("%d of %d were reached: %w", n, len(items), err)
			}
		}
		if row.State == "" {
			p.leave(row)
			continue
		}
		p.Will++
		if i.Behind != nil {
			p.Behind += *i.Behind
		}
		p.Rows = append(p.Rows, row)
	}
	return nil
}

func partitionOf(i *api.DeadLetterItem) string {
	return fmt.Sprintf("%s.%s %s/%d", i.Team, i.Subscription, i.Topic, i.Partition)
}

// leftOut returns why a dead letter of a group is left out, as `forebay dlq replay --group` leaves it out; empty if it is not.
func leftOut(p *dlqAskPage, i *api.DeadLetterItem) string {
	switch {
	case p.One != nil:
		return ""
	case i.Asked:
		return "it was asked for something already, and waits for the owner of its partition"
	case p.Verb != api.VerbReplay:
		return ""
	case i.Flagged:
		return "it died three times or more: look at it first, and replay it by itself"
	case i.Status == "unknown":
		return "its outcome is unknown: look at the destination first, then resolve or replay it"
	}
	return ""
}

// dlqProgressPage is what has become of a group that something was asked of.
type dlqProgressPage struct {
	Words    verbWords
	Group    string
	Narrowed string // the filters besides the group, as flags
	Asked    int    // how many it was asked of
	Waits    int    // how many of those wait for the owners of their partitions
	Done     int    // how many do not
	Left     int    // dead letters of the group and the filters that nothing waits for
	Again    int    // those of them that died after it was asked
	Behind   bool   // it has looked from where the ask began, which is behind the start of the group
	More     bool   // the group has more than it has looked through
	Reload   string // link to this page
	Next     string // link to the dry run of what is left
	Unlisted bool   // there is no such dead letter any more
}

func (p *dlqAskPage) progressLink(until time.Time) string {
	return deadLettersLink("/console/dlq/progress", p.Of) + "&" + url.Values{"verb": {p.Verb}, "asked": {strconv.Itoa(p.Will)}, "until": {until.Format(time.RFC3339Nano)}}.Encode()
}

// progress says how far it is with what was asked of a group.
func (c *Console) progress(ctx context.Context, r *http.Request) (any, error) {
	if err := api.OnlyKnown(r, append(deadFilters, "cursor", "verb", "asked", "until")...); err != nil {
		return nil, err
	}
	q := r.URL.Query()
	words, known := verbs[q.Get("verb")]
	total, err1 := strconv.Atoi(q.Get("asked"))
	until, err2 := time.Parse(time.RFC3339Nano, q.Get("until"))
	f, err := deadLetterFilter(q)
	if err != nil {
		return nil, err
	}
	if !known || err1 != nil || err2 != nil || total < 0 || f.Group == "" {
		return nil, schemas.Errorf(schemas.Invalid, "", "this is no address of something that was asked: begin with the dead letters")
	}
	p := &dlqProgressPage{Words: words, Group: f.Group, Narrowed: dlqAskPage{Of: f}.Narrowed(), Asked: total, Behind: f.Cursor != "", More: true, Reload: "/console/dlq/progress?" + q.Encode(),
		Next: deadLettersLink("/console/dlq/"+q.Get("verb"), f)}
	f.Limit, f.Uncounted = maxRows, true
	for looks := 0; p.More && looks < maxLooks; looks++ {
		page, err := c.API.DeadLetters(ctx, f)
		if err != nil && schemas.KindOf(err) != schemas.NotFound { // that the group has none any more
			return nil, err
		}
		for i := range page.Items {
			switch d := &page.Items[i]; {
			case d.Asked:
				p.Waits++
			case d.DiedAt.After(until):
				p.Again++
				fallthrough
			default:
				p.Left++
			}
		}
		f.Cursor, p.More = page.Next, page.Next != ""
	}
	p.Unlisted = p.Waits+p.Left == 0 && !p.Behind
	p.Waits = min(p.Waits, total)
	p.Done = total - p.Waits
	return p, nil
}
