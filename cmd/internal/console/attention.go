package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/stream/inbox"
)

// attentionPage is what waits for an operator, by kind.
type attentionPage struct {
	listed
	All     []string // kinds that there are
	Kinds   []waitingKind
	Unknown []api.AttentionUnknown
}

// waitingKind is what waits of one kind: all of it counted, at most a limit listed.
type waitingKind struct {
	api.AttentionCount
	Items []api.AttentionItem
}

// Title is the kind in words.
func (k waitingKind) Title() string { return strings.ReplaceAll(k.Kind, "_", " ") }

func (c *Console) attention(ctx context.Context, r *http.Request) (any, error) {
	q := r.URL.Query()
	p := attentionPage{listed: listed{Query: q}, All: api.AttentionKinds()}
	if err := api.OnlyKnown(r, "team", "kind", "limit"); err != nil {
		return nil, err
	}
	f := api.AttentionFilter{Team: q.Get("team"), Kind: q.Get("kind")}
	if err := names.OneOf("kind", f.Kind, p.All); err != nil {
		return p, err
	}
	var err error
	if f.Limit, err = limit(q.Get("limit")); err != nil {
		return p, err
	}
	found, err := c.API.Attention(ctx, f)
	if err != nil {
		return p, err
	}
	p.Unknown = found.Unknown
	for _, n := range found.Counts {
		k := waitingKind{AttentionCount: n}
		for _, i := range found.Items {
			if i.Kind == n.Kind {
				k.Items = append(k.Items, i)
			}
		}
		if n.Count > 0 || n.More {
			p.Kinds = append(p.Kinds, k)
		}
	}
	return p, nil
}

// notKnown returns of which kinds nothing is known, and why, a line for each why.
func notKnown(list []api.AttentionUnknown) (lines []string) {
	for _, u := range api.ByReason(list) {
		lines = append(lines, "Not known here: "+u.Kinds+": "+u.Why)
	}
	return lines
}

// where names what waits as people look for it, and links to its page.
func where(i api.AttentionItem) (w struct{ Text, Link string }) {
	of := i.Team
	if i.Subscription != "" {
		of = i.Team + "." + i.Subscription
	}
	w.Text = i.ID
	switch {
	case i.Kind == api.KindBudget || i.Kind == api.KindDown || i.Kind == api.KindPaused || i.Kind == api.KindKeys || i.Kind == api.KindExpires || i.Kind == api.KindClock || i.Kind == api.KindSpooling:
	case i.Entity != "":
		w.Text, w.Link = of+" "+i.Source+" "+i.Entity, entityLink(i.Team, i.Subscription, i.Source, i.Entity)
	case i.Kind == api.KindQuarantinedDelivery:
		w.Text = i.Team + "/" + i.Source
	case i.Partition != nil:
		w.Text = fmt.Sprintf("%s %s/%d", of, i.Topic, *i.Partition)
	}
	switch i.Kind {
	case api.KindApproval:
		w.Link = approvalLink(i.ID)
	case string(inbox.AttentionLoop):
		w.Link = "/console/dlq/discard?" + url.Values{"action": {i.ID}}.Encode()
	case string(inbox.AttentionDead):
		w.Link = "/console/dlq/replay?" + url.Values{"action": {i.ID}}.Encode()
	case string(inbox.AttentionConflict), string(inbox.AttentionQuarantined), string(inbox.AttentionHeld):
		w.Link = "/console/event?" + url.Values{"id": {i.ID}}.Encode()
	case api.KindQuarantinedDelivery:
		if d, err := names.ParseDelivery(i.ID); err == nil {
			w.Link = quarantineLink(api.QuarantinePlace{Team: d.Source.Team, Source: d.Source.Name, Partition: d.Partition, Offset: d.Offset})
		}
	case api.KindDown, api.KindPaused:
		if team, name, own := strings.Cut(i.ID, "/"); own {
			w.Link = destinationLink(team, name)
		} else {
			w.Link = destinationLink("", i.ID)
		}
	case api.KindKeys, api.KindExpires, api.KindClock, api.KindSpooling:
		w.Link = sourceLink(i.Team, i.Source)
	case api.KindStopped, api.KindUnread, api.KindForgotten, api.KindPausedSubscription:
		w.Link = subscriptionLink(i.Team, i.Subscription)
	}
	return w
}
