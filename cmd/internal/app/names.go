package app

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/inbox"
)

// known are the names that a question may have: what the file configures, and what the ledger still has rows of.
type known struct {
	teams                                []string
	sources, destinations, subscriptions []names.Name
	reads                                map[string][]names.Name // the sources that a team's subscriptions read, of any team
	isFor                                func(destination names.Name, team string) bool
}

// configured returns the names of the file.
func configured(c *config.Config) (k known) {
	k.reads = map[string][]names.Name{}
	for _, team := range sortedKeys(c.Teams) {
		t := c.Teams[team]
		k.teams = append(k.teams, team)
		for _, name := range sortedKeys(t.Sources) {
			k.sources = append(k.sources, names.Name{Team: team, Name: name})
		}
		for _, name := range sortedKeys(t.Subscriptions) {
			k.subscriptions = append(k.subscriptions, names.Name{Team: team, Name: name})
			for _, s := range c.SourcesOf(team, name) {
				k.reads[team] = append(k.reads[team], names.Name{Team: s.Team, Name: s.Name})
			}
		}
	}
	for _, d := range c.AllDestinations() {
		k.destinations = append(k.destinations, names.Name{Team: d.Team, Name: d.Name})
	}
	k.isFor = func(d names.Name, team string) bool {
		if d.Team != "" || c.Destinations[d.Name] == nil {
			return true // no shared one of the file's
		}
		_, ok := c.Destination(team, d.Name)
		return ok
	}
	return k
}

// fullSource returns the source of an event as events carry it, and its id. Of what another team shares, lists show TEAM/SOURCE: in an event's
// name the source then stands before the id as two parts, of which only the first was taken for the source.
func (k known) fullSource(team, source, id string) (full, of string) {
	if strings.HasPrefix(source, "/") {
		return source, id
	}
	if n, err := names.Source.Parse(source); err == nil && n.Team != "" {
		return "/" + source, id
	}
	name, rest, more := strings.Cut(id, "/")
	if more && rest != "" && !slices.Contains(k.sources, names.Name{Team: team, Name: source}) && slices.Contains(k.reads[team], names.Name{Team: source, Name: name}) {
		return "/" + source + "/" + name, rest
	}
	return fullSource(team, source), id
}

// addLedger adds the names that the ledger has: a team or subscription that was taken out of the file can still be looked at.
func (k *known) addLedger(ctx context.Context, box *inbox.Inbox) error {
	subscriptions, destinations, err := box.Names(ctx)
	if err != nil {
		return err
	}
	for _, text := range subscriptions {
		n, err := names.Subscription.Parse(text)
		if err == nil && !slices.Contains(k.subscriptions, n) {
			k.subscriptions = append(k.subscriptions, n)
		}
		if err == nil && !slices.Contains(k.teams, n.Team) {
			k.teams = append(k.teams, n.Team)
		}
	}
	for _, text := range destinations {
		if n, err := names.Destination.Parse(text); err == nil && !slices.Contains(k.destinations, n) {
			k.destinations = append(k.destinations, n)
		}
	}
	return nil
}

// queryNames are the names in a question, each empty if it has none. resolve replaces them: subscription by its name without the team,
// source by "/<team>/<source>", destination by "<team>/<destination>".
type queryNames struct{ team, subscription, source, destination *string }

func (q queryNames) resolve(k known) error {
	if err := names.Team(*q.team, k.teams); err != nil {
		return err
	}
	if *q.subscription != "" {
		n, err := names.Subscription.Find(*q.subscription, *q.team, k.subscriptions)
		if err != nil {
			return err
		}
		*q.team, *q.subscription = n.Team, n.Name
	}
	if *q.destination != "" {
		of := k.destinations
		if *q.team != "" { // one that is shared with others is not there for this team
			of = slices.DeleteFunc(slices.Clone(of), func(d names.Name) bool { return !k.isFor(d, *q.team) })
		}
		n, err := names.Destination.Find(*q.destination, *q.team, of)
		if err != nil {
			return err
		}
		*q.destination = names.Destination.Print(n)
	}
	if *q.source != "" {
		of := *q.team
		if n, err := names.Source.Parse(*q.source); err == nil && slices.Contains(k.reads[of], n) {
			of = n.Team // another team's, of which this one has events
		}
		n, err := names.Source.Find(*q.source, of, k.sources)
		if err != nil {
			return err
		}
		*q.source = "/" + n.Team + "/" + n.Name
	}
	return nil
}

// resolve replaces the names in a question by those that the ledger has. What the file does not have is looked for in the ledger. A
// source that may be a slip is taken as it is: inDoubt is what it means if nothing is found of it.
func (i *inboxAPI) resolve(ctx context.Context, box *inbox.Inbox, q queryNames) (inDoubt, err error) {
	if inDoubt, err = i.resolveNames(ctx, box, q); err == nil {
		err = i.s.a.hereOf(*q.team, *q.subscription)
	}
	return inDoubt, err
}

// resolveNames is resolve, of any ledger.
func (i *inboxAPI) resolveNames(ctx context.Context, box *inbox.Inbox, q queryNames) (inDoubt, err error) {
	k := configured(i.s.a.file())
	// A destination without a team may be one that teams shared, and that the ledger alone has by now: not another's of the same name.
	bare := *q.destination != "" && !strings.Contains(*q.destination, "/")
	if !bare {
		if err := q.resolve(k); schemas.KindOf(err) != schemas.NotFound {
			return nil, err
		}
	}
	if err := k.addLedger(ctx, box); err != nil {
		return nil, err
	}
	if n, bad := names.Source.Parse(*q.source); bad == nil && n.Team != "" && (*q.team == "" || n.Team == *q.team) && !slices.Contains(k.sources, n) {
		is, sure, err := box.KnowsSource(ctx, "/"+n.Team+"/"+n.Name)
		if err != nil {
			return nil, err
		}
		if !sure {
			inDoubt = schemas.Errorf(schemas.NotFound, "", "nothing is listed, and %w (the file has none of that name; the ledger is too large to look through for one)", names.Source.Unknown(n, k.sources))
		}
		if is || !sure {
			k.sources = append(k.sources, n)
		}
	}
	return inDoubt, q.resolve(k)
}

// nothing returns why a list of events is empty, if that is a filter which names nothing that is known: a slip in an entity or a type
// must not look like an answer. It returns nil if both may be right and there is nothing of them now, or if it takes too long to find
// out; but inDoubt where the source may be a slip.
func (i *inboxAPI) nothing(ctx context.Context, box *inbox.Inbox, f api.InboxFilter, inDoubt error) error {
	if inDoubt != nil || f.Entity == "" && f.Type == "" {
		return inDoubt
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	scope := api.InboxFilter{Team: f.Team, Subscription: f.Subscription, Source: f.Source}
	is := func(only api.InboxFilter) bool { // or nobody knows
		only.Limit = 1
		page, err := box.List(ctx, only)
		return err != nil || len(page.Items) > 0
	}
	ofEntity, ofType := scope, scope
	ofEntity.Entity, ofType.Type = f.Entity, f.Type
	wrongEntity := f.Entity != "" && !is(ofEntity)
	wrongType := f.Type != "" && !wrongEntity && !i.mapped(f.Team, f.Source, f.Type) && !is(ofType)
	if !wrongEntity && !wrongType {
		return nil
	}
	scope.Limit = 1000
	recent, err := box.List(ctx, scope)
	if err != nil {
		return nil // the list was answered; only what else there is cannot be said
	}
	var entities []string
	types := i.types(f.Team, f.Source)
	for n := range recent.Items {
		entities, types = append(entities, recent.Items[n].Entity), append(types, recent.Items[n].Type)
	}
	if wrongEntity {
		return noneOf("entity", string(f.Entity), names.Nearest(string(f.Entity), entities), "forebay inbox list")
	}
	return noneOf("type", f.Type, names.Nearest(f.Type, types), "forebay sources presets NAME")
}

// knownInAudit returns why a list of changes is empty, if that is a filter which names nothing that is known: neither of now, nor in the audit,
// which has rows of teams and actions that are gone. Actors and objects are whatever they were called.
func (i *inboxAPI) knownInAudit(ctx context.Context, f api.AuditFilter) error {
	if slip := names.OneOf("action", f.Action, api.AuditActions()); slip != nil {
		if err := i.unlessInAudit(ctx, api.AuditFilter{Action: f.Action}, slip); err != nil {
			return err
		}
	}
	k := configured(i.s.a.file())
	if names.Team(f.Team, k.teams) == nil {
		return nil
	}
	box, _, err := i.open()
	if err != nil {
		return err
	}
	if err := k.addLedger(ctx, box); err != nil {
		return err
	}
	if slip := names.Team(f.Team, k.teams); slip != nil {
		return i.unlessInAudit(ctx, api.AuditFilter{Team: f.Team}, slip)
	}
	return nil
}

// unlessInAudit returns slip, unless the audit has a row that the filter wants.
func (i *inboxAPI) unlessInAudit(ctx context.Context, f api.AuditFilter, slip error) error {
	l, err := i.s.openLedger()
	if err != nil {
		return err
	}
	f.Limit = 1
	rows, _, err := l.Changes(ctx, f)
	if err == nil && len(rows) == 0 {
		err = slip
	}
	return err
}

// noneOf is the error for an entity or a type of which no event is known.
func noneOf(what, value, near, list string) error {
	if near != "" {
		near = "; did you mean " + near + "?"
	}
	return schemas.Errorf(schemas.NotFound, "", "no event of %s %s is known%s (`%s` shows what there is)", what, value, near, list)
}

// types returns the event types that the presets of the sources map, as globs.
func (i *inboxAPI) types(team, source string) (globs []string) {
	c := i.s.a.file()
	k := configured(c)
	for _, n := range k.sources {
		if (team == "" || n.Team == team || slices.Contains(k.reads[team], n)) && (source == "" || source == "/"+n.Team+"/"+n.Name) {
			mapped, _ := c.Source(n.Team, n.Name).Types()
			globs = append(globs, mapped...)
		}
	}
	return globs
}

// mapped reports whether a type, or one that a glob stands for, is one that a preset of the sources maps.
func (i *inboxAPI) mapped(team, source, eventType string) bool {
	return slices.ContainsFunc(i.types(team, source), func(glob string) bool { return provider.GlobsMeet(glob, eventType) })
}

// action returns the id of the action that an operator names by its id or the beginning of it.
func (d *deadLettersAPI) action(ctx context.Context, box *inbox.Inbox, text string) (schemas.ActionID, error) {
	if _, whole := schemas.ActionID(text).Hash(); whole {
		return schemas.ActionID(text), nil
	}
	ids, err := box.ActionIDs(ctx, nil, text)
	if err != nil {
		return "", err
	}
	var found []string
	for _, id := range ids {
		found = append(found, string(id))
	}
	id, err := onlyOne("action", text, found, "forebay dlq list -o id")
	return schemas.ActionID(id), err
}

// group returns the group of dead letters that an operator names by its id or the beginning of it: of a team, or of all where team is empty.
func (d *deadLettersAPI) group(ctx context.Context, box *inbox.Inbox, team, text string) (string, error) {
	found, err := box.Groups(ctx, team, text)
	if err != nil {
		return "", err
	}
	return onlyOne("group of dead letters", text, found, "forebay dlq groups")
}

// onlyOne returns the one id that was found to begin with a text. Kinds of errors: NotFound if there is none, Invalid if there are
// several.
func onlyOne(what, text string, found []string, list string) (string, error) {
	switch {
	case len(found) == 0:
		return "", schemas.Errorf(schemas.NotFound, "", "no %s %s is there, or not any more; `%s` lists them", what, text, list)
	case len(found) > 1 && !slices.Contains(found, text):
		return "", schemas.Errorf(schemas.Invalid, "", "%s is the beginning of several: %s; give more of it", text, strings.Join(found, ", "))
	case len(found) > 1:
		return text, nil
	}
	return found[0], nil
}
