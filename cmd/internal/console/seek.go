package console

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
)

// seekPage is what a seek would do; without a target, it asks for one.
type seekPage struct {
	Name, Back           string // of the subscription, and its page
	Path                 string // of this page
	To, Topic, Partition string // as they were asked for; To is a time where it was how long ago
	Planned              bool
	Items                []api.SeekAskedItem
	Moves                int // how many partitions are moved
	Again, Known         int64
	Skipped              int64
	Form                 *form
}

// planSeek says what a seek would do, and does nothing.
func (c *Console) planSeek(ctx context.Context, r *http.Request) (any, error) {
	if err := onlyKnown(r, "to", "topic", "partition"); err != nil {
		return nil, err
	}
	q := r.URL.Query()
	p := newSeekPage(r, q)
	if p.To == "" {
		_, err := c.API.Subscription(ctx, r.PathValue("team"), r.PathValue("subscription")) // there is one
		if err != nil {
			return nil, err
		}
		return p, nil
	}
	return p, c.plan(ctx, r, p)
}

func newSeekPage(r *http.Request, q url.Values) *seekPage {
	team, name := r.PathValue("team"), r.PathValue("subscription")
	return &seekPage{Name: team + "." + name, Back: subscriptionLink(team, name), Path: subscriptionLink(team, name) + "/seek", To: fixed(q.Get("to"), time.Now()), Topic: q.Get("topic"), Partition: q.Get("partition")}
}

// fixed returns a target that means the same later: a time for how long ago.
func fixed(to string, now time.Time) string {
	if ago, ok := strings.CutPrefix(to, "-"); ok {
		if d, err := config.ParseDuration(ago); err == nil && d > 0 {
			return now.Add(-d.Std()).UTC().Format(time.RFC3339)
		}
	}
	return to
}

func (p *seekPage) request() (q api.SeekRequest, err error) {
	q = api.SeekRequest{To: p.To, Topic: p.Topic}
	if p.Partition != "" {
		n, err := strconv.ParseInt(p.Partition, 10, 32)
		if err != nil {
			return q, schemas.Errorf(schemas.Invalid, "", "partition %q is no number", p.Partition)
		}
		q.Partition = new(int32(n))
	}
	return q, nil
}

// plan asks what a seek would do, and makes the form that asks for it.
func (c *Console) plan(ctx context.Context, r *http.Request, p *seekPage) error {
	team, name := r.PathValue("team"), r.PathValue("subscription")
	last, err := c.lastSeek(ctx, team, name)
	if err != nil {
		return err
	}
	req, err := p.request()
	if err != nil {
		return err
	}
	req.DryRun = true
	if p.Items, err = items(c.API.Seek(ctx, team, name, req)); err != nil {
		return err
	}
	p.Planned = true
	for _, i := range p.Items {
		if i.State == api.SeekPlanned {
			p.Moves++
		}
		for sum, n := range map[*int64]*int64{&p.Again: i.Again, &p.Known: i.KnownDone, &p.Skipped: i.Skipped} {
			if n != nil {
				*sum += *n
			}
		}
	}
	if p.Moves > 0 {
		p.Form = formFor(ctx, access.Operate, team, p.Path, "Move "+p.Name, field{"to", p.To}, field{"topic", p.Topic}, field{"partition", p.Partition}, field{"after", strconv.FormatInt(last.ID, 10)})
	}
	return nil
}

// lastSeek returns the newest seek that was asked for; its id is 0 if none was.
func (c *Console) lastSeek(ctx context.Context, team, name string) (last api.SeekAskedItem, err error) {
	seeks, err := items(c.API.Seeks(ctx, team, name))
	for _, s := range seeks {
		if s.ID > last.ID {
			last = s
		}
	}
	return last, err
}

// seek asks for the seek that the form names, unless one was asked for since the form was made: who sends a form twice moves nothing twice.
func (c *Console) seek(ctx context.Context, r *http.Request) (any, error) {
	s, err := posted(r)
	if err != nil {
		return nil, err
	}
	select { // one at a time: of two forms at once, the second finds the first one's seek
	case c.seeking <- struct{}{}:
		defer func() { <-c.seeking }()
	case <-ctx.Done():
		return nil, schemas.Errorf(schemas.Unavailable, "", "another seek is asked for just now; nothing was asked: %w", ctx.Err())
	}
	team, name := r.PathValue("team"), r.PathValue("subscription")
	p := newSeekPage(r, s.Values)
	req, err := p.request()
	if err != nil {
		return p, err
	}
	last, err := c.lastSeek(ctx, team, name)
	if err == nil && strconv.FormatInt(last.ID, 10) != s.Get("after") {
		err = errSought(&last)
	}
	if err != nil {
		return p, err
	}
	req.Reason, req.By = s.Reason, s.By
	if _, err = c.API.Seek(ctx, team, name, req); err == nil {
		return seeOther(p.Back), nil
	}
	if s.Reason == "" {
		if failed := c.plan(ctx, r, p); failed != nil {
			return p, failed
		}
	}
	return p, err
}
