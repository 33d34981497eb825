package cli

import (
	"io"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
)

// entityFilter narrows a list of entities.
type entityFilter struct {
	Team         string `help:"Only this team."`
	Subscription string `help:"Only this subscription: TEAM.SUBSCRIPTION, or its name alone."`
	Source       string `help:"Only this source: TEAM/SOURCE, or its name alone."`
	Limit        int    `default:"50" help:"Most entities, 1 to 1000."`
	Cursor       string `help:"Go on behind the page that ended with this."`
}

func (f entityFilter) filter() api.EntitiesFilter {
	return api.EntitiesFilter{Team: f.Team, Subscription: f.Subscription, Source: f.Source, Limit: f.Limit, Cursor: f.Cursor}
}

type entitiesListCmd struct {
	listenerFlag
	watchFlag
	entityFilter
}

// Help is what kong prints below the command's summary.
func (entitiesListCmd) Help() string { return names.Help }

// Run lists entities by partition and key. There is no --since: a version line has no time, and no index finds an entity's last event.
func (c *entitiesListCmd) Run(e *env, client *api.Client) error {
	page, err := client.Entities(e.ctx, c.filter())
	if err != nil {
		return err
	}
	type item = api.EntityItem
	return printList(e, page, entityID, append(entityColumns(),
		atColumn(false),
		column[item]{name: "waiting", value: func(i item) string { return countText(i.Waiting, i.WaitingAtLeast) }},
		column[item]{name: "parked", value: parkedText})...)
}

type gapsListCmd struct {
	listenerFlag
	watchFlag
	entityFilter
	Waits string `enum:"buffered,parked," default:"" help:"Only what waits for what is missing (buffered), or for an operator (parked). Default: both."`
	Since string `help:"Only where something waits since: a duration back (1h, 2d) or an RFC 3339 time."`
}

// Help is what kong prints below the command's summary.
func (gapsListCmd) Help() string { return names.Help }

// Run lists the entities of which something waits, by partition and key.
func (c *gapsListCmd) Run(e *env, client *api.Client) error {
	f := c.filter()
	f.Gaps, f.Waits = true, gate.Decision(c.Waits)
	var err error
	if f.Since, err = parseSince(c.Since, time.Now()); err != nil {
		return err
	}
	page, err := client.Entities(e.ctx, f)
	if err != nil {
		return err
	}
	type item = api.EntityItem
	return printList(e, page, entityID, append(entityColumns(),
		atColumn(true), // what is missing begins behind it
		column[item]{name: "missing", value: func(i item) string {
			if len(i.Lines) == 0 && i.Then != "operator" {
				return "first"
			}
			return ofLines(i, func(l api.VersionLineItem) string { return api.RangesText(l.Missing) })
		}},
		column[item]{name: "waiting", value: func(i item) string { return countText(i.Waiting, i.WaitingAtLeast) }},
		column[item]{name: "since", at: func(i item) *time.Time { return i.Since }},
		column[item]{name: "until", at: func(i item) *time.Time { return i.Until }},
		column[item]{name: "then", value: func(i item) string { return i.Then }},
		column[item]{name: "parked", wide: true, value: parkedText})...)
}

type gapsGetCmd struct {
	listenerFlag
	watchFlag
	entityArgs
}

// Help is what kong prints below the command's summary.
func (gapsGetCmd) Help() string { return names.Help }

// gapDetail is an entity of which something waits: [api.EntityDetail] without its last events.
type gapDetail struct {
	Team         string                `json:"team"`
	Subscription string                `json:"subscription"`
	Source       string                `json:"source"`
	Entity       string                `json:"entity"`
	Lines        []api.VersionLineItem `json:"lines"`
	Waiting      []api.WaitItem        `json:"waiting"`
}

// Run shows what is missing of an entity, and what waits for it. The entity's last events are not looked for: none were decided since now.
func (c *gapsGetCmd) Run(e *env, client *api.Client) error {
	d, err := c.ask(e, client, time.Now(), 1)
	if err != nil {
		return err
	}
	id := names.Event{Team: d.Team, Subscription: d.Subscription, Source: d.Source, ID: d.Entity}.String()
	if len(d.Waiting) == 0 {
		return schemas.Errorf(schemas.NotFound, "", "nothing waits of %s; `forebay entities get %s` shows where it stands", d.Entity, id)
	}
	d.Track = nil
	g := gapDetail{Team: d.Team, Subscription: d.Subscription, Source: d.Source, Entity: d.Entity, Lines: d.Lines, Waiting: d.Waiting}
	return printOne(e, g, id, func(w io.Writer) { showEntity(w, d, e) })
}

// entityColumns name an entity.
func entityColumns() []column[api.EntityItem] {
	type item = api.EntityItem
	return []column[item]{
		{name: "subscription", value: func(i item) string {
			return names.Subscription.Print(names.Name{Team: i.Team, Name: i.Subscription})
		}},
		{name: "source", tail: true, value: func(i item) string { return sourceText(i.Team, i.Source) }},
		{name: "entity", tail: true, value: func(i item) string { return i.Entity }},
	}
}

// atColumn says where an entity stands.
func atColumn(wide bool) column[api.EntityItem] {
	return column[api.EntityItem]{name: "at", wide: wide, tail: true, value: func(i api.EntityItem) string {
		return ofLines(i, func(l api.VersionLineItem) string { return l.At })
	}}
}

// entityID returns the id of an entity, which entities get takes.
func entityID(i api.EntityItem) string {
	return names.Event{Team: i.Team, Subscription: i.Subscription, Source: i.Source, ID: i.Entity}.String()
}

func parkedText(i api.EntityItem) string {
	return ofLines(i, func(l api.VersionLineItem) string { return l.Parked })
}

// ofLines returns what is said of an entity's version lines, each with its clock where there are several.
func ofLines(i api.EntityItem, of func(api.VersionLineItem) string) string {
	var texts []string
	for _, l := range i.Lines {
		text := of(l)
		if text == "" {
			continue
		}
		if len(i.Lines) > 1 && l.Clock != "" {
			text = l.Clock + " " + text
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}
