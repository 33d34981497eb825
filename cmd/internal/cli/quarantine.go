package cli

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/names"
)

type quarantineListCmd struct {
	listenerFlag
	watchFlag
	Team    string `help:"Only this team."`
	Source  string `help:"Only this source: TEAM/SOURCE, or its name alone."`
	Kind    string `help:"Only this kind: unusable (authentic, and no event by the mapping) or refused (kept by keep_refused)."`
	Since   string `help:"Only deliveries received since: a duration back (1h, 2d) or an RFC 3339 time."`
	Limit   int    `default:"50" help:"Most deliveries, 1 to 1000."`
	Cursor  string `help:"Go on behind the page that ended with this."`
	Waiting bool   `help:"Only what was not redriven."`
}

func (c *quarantineListCmd) Run(e *env, client *api.Client) error {
	page, err := client.Quarantined(e.ctx, api.QuarantineFilter{Team: c.Team, Source: c.Source, Kind: c.Kind, Limit: c.Limit, Waiting: c.Waiting, Cursor: c.Cursor})
	if err == nil {
		page, err = onlySince(c.Since, page, func(i api.QuarantineItem) *time.Time { return &i.ReceivedAt })
	}
	if err != nil {
		return err
	}
	type item = api.QuarantineItem
	return printList(e, page, quarantineID,
		column[item]{name: "received", at: func(i item) *time.Time { return &i.ReceivedAt }},
		column[item]{name: "source", whole: true, value: func(i item) string { return i.Team + "/" + i.Source }},
		column[item]{name: "kind", wide: true, value: func(i item) string { return i.Kind }},
		column[item]{name: "reason", value: quarantineReason},
		column[item]{name: "detail", value: func(i item) string { return i.Detail }},
		column[item]{name: "bytes", wide: true, value: func(i item) string { return strconv.Itoa(i.Bytes) }},
		column[item]{name: "dealt with", at: func(i item) *time.Time {
			if i.Redriven == nil {
				return nil
			}
			return &i.Redriven.At
		}},
		column[item]{name: "how", wide: true, value: markText},
		column[item]{name: "place", whole: true, value: quarantineID})
}

// quarantineReason returns why a delivery is in quarantine: of a refused one it says that first, since nobody was promised anything.
func quarantineReason(i api.QuarantineItem) string {
	if i.Kind == "refused" {
		return i.Kind + ": " + i.Reason
	}
	return i.Reason
}

// quarantineID returns the id of a quarantined delivery, which is its place: topic, partition and offset.
func quarantineID(i api.QuarantineItem) string {
	return names.Place{Topic: i.Topic, Partition: i.Partition, Offset: i.Offset}.String()
}

// quarantinePlace parses the id of a quarantined delivery, as quarantineID writes it.
func quarantinePlace(id string) (api.QuarantinePlace, error) {
	d, err := names.ParseDelivery(id)
	if _, none := names.ParseEvent(id); none == nil || isAction(id) {
		return api.QuarantinePlace{}, usageError("%s is an event, and no delivery in quarantine: `forebay inbox raw %s` prints its body, `forebay inbox get %s` tells the rest", id, id, id)
	}
	if err != nil {
		return api.QuarantinePlace{}, usageError("%w", err)
	}
	return api.QuarantinePlace{Team: d.Source.Team, Source: d.Source.Name, Partition: d.Partition, Offset: d.Offset}, nil
}

// markText returns when a delivery was redriven or discarded, by whom and why; empty if it was not.
func markText(i api.QuarantineItem) string {
	if i.Redriven == nil {
		return ""
	}
	what := "redriven "
	if i.Redriven.To == "" {
		what = "discarded "
	}
	return what + formatTime(i.Redriven.At) + " by " + i.Redriven.By + ": " + i.Redriven.Reason
}

type quarantineRawCmd struct {
	listenerFlag
	ID string `arg:"" name:"place" help:"The delivery, as quarantine list shows its place."`
}

func (c *quarantineRawCmd) Run(e *env, client *api.Client) error {
	p, err := quarantinePlace(c.ID)
	if err != nil {
		return err
	}
	body, err := client.QuarantinedBody(e.ctx, p)
	if err == nil {
		_, err = e.Stdout.Write(body)
	}
	return err
}

type quarantineRedriveCmd struct {
	listenerFlag
	IDs    []string `arg:"" name:"place" help:"The deliveries, as quarantine list -o id lists them."`
	Reason string   `placeholder:"TEXT" help:"Why; kept with the delivery, with who said so and when."`
	Again  bool     `help:"Also what was redriven before."`
	DryRun bool     `help:"Say what events they are by now and do nothing."`

	Discard bool `help:"Discard them instead: they become no events, and attention lists them no more."`
}

// Run redrives the deliveries in the order in which they came.
func (c *quarantineRedriveCmd) Run(e *env, client *api.Client) error {
	req := api.QuarantineRedrive{Reason: strings.TrimSpace(c.Reason), By: whoAmI(), Again: c.Again, Discard: c.Discard, DryRun: c.DryRun}
	if req.Reason == "" && !req.DryRun {
		return usageError("--reason is needed: it is logged with what is redriven (--dry-run shows what that is)")
	}
	var places []api.QuarantinePlace
	for _, id := range c.IDs {
		p, err := quarantinePlace(id)
		if err != nil {
			return err
		}
		places = append(places, p)
	}
	slices.SortFunc(places, func(a, b api.QuarantinePlace) int { // in the order of the log; lists show the newest first
		return cmp.Or(cmp.Compare(a.Team, b.Team), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	b := &bulk[api.QuarantineRedriven]{env: e, dryRun: c.DryRun, named: true}
	for _, p := range places {
		name := names.Delivery{Source: names.Name{Team: p.Team, Name: p.Source}, Partition: p.Partition, Offset: p.Offset}.String()
		b.requests = append(b.requests, request[api.QuarantineRedriven]{name: name, do: func(bool) (*api.QuarantineRedriven, string, error) {
			item, err := client.RedriveQuarantined(e.ctx, p, req)
			if err != nil {
				return nil, "", err
			}
			return item, item.State, nil
		}})
	}
	type item = api.QuarantineRedriven
	return b.run(func(i item) string { return quarantineID(i.QuarantineItem) },
		column[item]{name: "place", whole: true, value: func(i item) string { return quarantineID(i.QuarantineItem) }},
		column[item]{name: "was", value: func(i item) string { return quarantineReason(i.QuarantineItem) }},
		column[item]{name: "state", value: func(i item) string { return i.State }},
		column[item]{name: "type", value: func(i item) string { return i.Type }},
		column[item]{name: "entity", value: func(i item) string { return i.Entity }},
		column[item]{name: "event", value: func(i item) string { return i.EventID }},
		column[item]{name: "to", whole: true, value: func(i item) string {
			if i.To == nil {
				return ""
			}
			return strings.TrimSpace(names.Place(*i.To).String() + " " + i.Note)
		}})
}
