package console

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
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
	To, Topic, Partition string // as they were asked for; To is a time where it was how long ago, or the end
	Planned              bool
	plan                 string // of where each partition would be moved to
	Items                []api.SeekAskedItem
	Moves                int // how many partitions are moved
	Again, Known         int64
	Skipped              int64
	Form                 *form
}

// planSeek says what a seek would do, and does nothing. Without a place to go to it returns the empty form.
func (c *Console) planSeek(ctx context.Context, r *http.Request) (any, error) {
	if err := api.OnlyKnown(r, "to", "topic", "partition"); err != nil {
		return nil, err
	}
	q := r.URL.Query()
	p := newSeekPage(r, q)
	if p.To == "" {
		_, err := c.API.Subscription(ctx, r.PathValue("team"), r.PathValue("subscription")) // an error if there is none
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

// fixed returns a target that means the same later: a time for how long ago, and for the end. What comes after that is not passed over.
func fixed(to string, now time.Time) string {
	if to == "end" {
		return now.UTC().Format("2006-01-02T15:04:05.000Z07:00") // not rounded: the future is no target
	}
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
	sum := sha256.New()
	for _, i := range p.Items {
		fmt.Fprintf(sum, "%s/%d %d\n", i.Topic, i.Partition, i.To)
		if i.State == api.SeekPlanned {
			p.Moves++
		}
		for all, n := range map[*int64]*int64{&p.Again: i.Again, &p.Known: i.KnownDone, &p.Skipped: i.Skipped} {
			if n != nil {
				*all += *n
			}
		}
	}
	p.plan = hex.EncodeToString(sum.Sum(nil))
	if p.Moves > 0 {
		p.Form = formFor(ctx, access.Operate, team, p.Path, "Move "+p.Name, field{"to", p.To}, field{"topic", p.Topic}, field{"partition", p.Partition}, field{"plan", p.plan}, field{"after", strconv.FormatInt(last.ID, 10)})
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

// seek requests the seek of the form, unless another was requested since the form was made (its field after is the id of the last one then), or
// the plan is no longer what the page showed (its field plan is a digest of that). So a form that is sent twice moves nothing twice.
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
	if err := c.plan(ctx, r, p); err != nil {
		return p, err
	}
	if p.Form != nil {
		p.Form.Reason, p.Form.By = s.Reason, s.Get("by")
	}
	if p.plan != s.Get("plan") {
		return p, schemas.Errorf(schemas.Conflict, "", "nothing was asked: since this was planned, records have come or gone, and it would lead elsewhere: look at what it would do now, and send that")
	}
	req.Reason, req.By = s.Reason, s.By
	if _, err = c.API.Seek(ctx, team, name, req); err == nil {
		return seeOther(p.Back), nil
	}
	return p, err
}
