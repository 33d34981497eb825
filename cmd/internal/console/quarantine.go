package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
)

// quarantinePage is the deliveries that could not become events, or were refused and kept.
type quarantinePage struct {
	listed
	Page api.Page[api.QuarantineItem]
}

// Link leads to a delivery's page.
func (p quarantinePage) Link(i api.QuarantineItem) string {
	return quarantineLink(api.QuarantinePlace{Team: i.Team, Source: i.Source, Partition: i.Partition, Offset: i.Offset})
}

func quarantineLink(p api.QuarantinePlace) string {
	return fmt.Sprintf("/console/quarantine/%s/%s/%d/%d", url.PathEscape(p.Team), url.PathEscape(p.Source), p.Partition, p.Offset)
}

func (c *Console) quarantine(ctx context.Context, r *http.Request) (any, error) {
	q := r.URL.Query()
	p := quarantinePage{listed: listed{Query: q}}
	if err := api.OnlyKnown(r, "team", "source", "kind", "waiting", "limit", "cursor"); err != nil {
		return nil, err
	}
	if w := q.Get("waiting"); w != "" && w != "true" {
		return p, schemas.Errorf(schemas.Invalid, "", "waiting %q is not true: leave it out for all", w)
	}
	n, err := limit(q.Get("limit"))
	if err != nil {
		return p, err
	}
	p.Page, err = c.API.Quarantined(ctx, api.QuarantineFilter{Team: q.Get("team"), Source: q.Get("source"), Kind: q.Get("kind"), Waiting: q.Get("waiting") != "", Limit: n, Cursor: q.Get("cursor")})
	p.turn(r.URL.Path, p.Page.Next)
	return p, err
}

// lookedThrough is how many of a source's newest deliveries are read to say more of one.
const lookedThrough = 200

// deliveryPage is one delivery in quarantine, and the event that its source's mapping of today makes of it.
type deliveryPage struct {
	api.QuarantinePlace
	Place  string // as commands name it
	Item   *api.QuarantineItem
	Body   part[*body]
	Raw    string // link that downloads the body, byte for byte
	May    bool   // who looks may make an event of it, and sees which one that would be
	Would  part[*api.QuarantineRedriven]
	Done   *api.QuarantineRedriven // what came of what was asked
	Make   *form                   // makes an event of it; nil: none can be made, or who looks may not
	Leave  *form                   // leaves it at that; nil: it was dealt with, or who looks may not
	Listed int                     // how many of the source's deliveries were looked through
}

// quarantinePlace reads which delivery a page is about.
func quarantinePlace(r *http.Request) (p api.QuarantinePlace, err error) {
	partition, err1 := strconv.ParseInt(r.PathValue("partition"), 10, 32)
	offset, err2 := strconv.ParseInt(r.PathValue("offset"), 10, 64)
	if err1 != nil || err2 != nil {
		return p, schemas.Errorf(schemas.Invalid, "", "partition %q and offset %q must both be numbers", r.PathValue("partition"), r.PathValue("offset"))
	}
	return api.QuarantinePlace{Team: r.PathValue("team"), Source: r.PathValue("source"), Partition: int32(partition), Offset: offset}, nil
}

func (c *Console) delivery(ctx context.Context, r *http.Request) (any, error) {
	if err := api.OnlyKnown(r); err != nil {
		return nil, err
	}
	at, err := quarantinePlace(r)
	if err != nil {
		return nil, err
	}
	return c.deliveryAt(ctx, at)
}

func (c *Console) deliveryAt(ctx context.Context, at api.QuarantinePlace) (*deliveryPage, error) {
	p := &deliveryPage{QuarantinePlace: at, Place: fmt.Sprintf("quarantine.%s.%s/%d@%d", at.Team, at.Source, at.Partition, at.Offset), Raw: quarantineLink(at) + "/raw"}
	for _, kind := range []string{"unusable", "refused"} { // each by itself: many refused ones hide no other
		list, err := items(c.API.Quarantined(ctx, api.QuarantineFilter{Team: at.Team, Source: at.Source, Kind: kind, Limit: lookedThrough}))
		if err != nil {
			return nil, err
		}
		p.Listed += len(list)
		for i := range list {
			if list[i].Partition == at.Partition && list[i].Offset == at.Offset {
				p.Item = &list[i]
			}
		}
	}
	p.Body = partOf(ctx, func(ctx context.Context) (*body, error) {
		data, err := c.API.QuarantinedBody(ctx, at)
		if err != nil {
			return nil, err
		}
		return bodyOf(&api.InboxRecord{Body: data, Bytes: len(data)}), nil
	})
	if !api.Asks(ctx).May(access.Sources) {
		return p, nil
	}
	p.May = true
	p.Would = partOf(ctx, func(ctx context.Context) (*api.QuarantineRedriven, error) {
		return c.API.RedriveQuarantined(ctx, at, api.QuarantineRedrive{DryRun: true})
	})
	if p.Would.Problem == "" {
		p.Make = formFor(ctx, access.Sources, at.Team, quarantineLink(at), "Make it an event")
	}
	if p.Item != nil && p.Item.Redriven == nil {
		p.Leave = formFor(ctx, access.Sources, at.Team, quarantineLink(at), "Discard", field{"discard", "yes"})
	}
	return p, nil
}

// rawDelivery downloads the body of a delivery, byte for byte.
func (c *Console) rawDelivery(w http.ResponseWriter, r *http.Request) {
	c.serveRaw(w, r, func(ctx context.Context) (*api.Raw, error) {
		at, err := quarantinePlace(r)
		if err != nil {
			return nil, err
		}
		data, err := c.API.QuarantinedBody(ctx, at)
		return &api.Raw{Data: data}, err
	})
}

// redriveDelivery makes an event of a delivery, or leaves it at that. What was dealt with is refused: who sends a form twice does nothing twice.
func (c *Console) redriveDelivery(ctx context.Context, r *http.Request) (any, error) {
	at, err := quarantinePlace(r)
	if err != nil {
		return nil, err
	}
	s, err := posted(r)
	if err != nil {
		return nil, err
	}
	done, failed := c.API.RedriveQuarantined(ctx, at, api.QuarantineRedrive{Reason: s.Reason, By: s.By, Discard: s.Get("discard") != ""})
	p, err := c.deliveryAt(ctx, at)
	if err != nil {
		return nil, err
	}
	if p.Done = done; failed == nil {
		p.Make, p.Leave = nil, nil
	}
	return p, failed
}
