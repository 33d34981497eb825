package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/forebay-io/forebay/schemas"
)

// Waiting is a key of the files that a process does not take before it is started again: it goes on with what it had.
type Waiting struct {
	Team string // whose it is; empty: the process's own
	Path string // teams.beta.sources.orders.topic
}

// Taking says what a process can take.
type Taking struct {
	Roles []Role
	// Fits reports whether the process has room for the bodies of a source as a configuration has it. Nil: for any.
	Fits func(c *Config, team, source string) bool
}

// Take returns the configuration with which a process that runs c goes on when it has read another one, and what of that waits for its next
// start. What waits keeps its value, for its own key alone: everything else is as it was read. What the process's roles do not use does not wait.
//
// These wait: the sections kafka (but for what references in its sasl lead to), postgres (but for user and password), listen, operator, intake (but for its public_url), agents (but
// for its secrets), alerts and telemetry; of a
// source its topic and topics, and a body that the process has no room for; all of a destination with long where the process does not listen for results;
// of a subscription its postgres (but for what a reference leads to as user and password), and all of one that names a source which is not shared with it, or names what is new and waits.
func (c *Config) Take(read *Config, t Taking) (taken *Config, waits []Waiting) {
	k := &taking{running: c, read: read, taken: read.copied(), uses: (&Options{Roles: t.Roles}).uses}
	k.taken.ours, k.taken.chosen, k.taken.oneLedger = c.ours, c.chosen, c.oneLedger
	k.sections()
	k.long()
	for _, team := range keys(k.taken.Teams) {
		for _, name := range keys(k.taken.Teams[team].Sources) {
			k.source(team, name, t)
		}
		if before := c.Teams[team]; before != nil {
			for _, name := range keys(k.taken.Teams[team].Subscriptions) {
				k.ledger(team, name, before.Subscriptions[name])
				k.barred(team, name, before.Subscriptions[name])
			}
		}
	}
	k.withoutWhatIsLeft()
	k.taken.uses = sync.OnceValue(k.taken.allUses)
	slices.SortFunc(k.waits, func(a, b Waiting) int { return strings.Compare(a.Path, b.Path) })
	return k.taken, slices.Compact(k.waits)
}

// taking is one call of Take.
type taking struct {
	running, read, taken *Config
	uses                 func(path string) bool
	waits                []Waiting
	left                 []string           // sources that are new and do not fit, as TEAM/SOURCE
	leftTo               []NamedDestination // destinations that need what the process does not listen on
}

// sections keeps those of the main file that are read at the start alone.
func (k *taking) sections() {
	kafka, readKafka := k.running.lastingKafka(), k.taken.lastingKafka()
	intake, readIntake := k.running.writtenIntake(), k.taken.writtenIntake()
	other := members(reflect.ValueOf(k.taken).Elem())
	for i, m := range members(reflect.ValueOf(k.running).Elem()) {
		before, read := m.value, other[i].value
		switch m.name {
		case "kafka":
			before, read = reflect.ValueOf(&kafka).Elem(), reflect.ValueOf(&readKafka).Elem()
		case "intake":
			intake.PublicURL, readIntake.PublicURL = "", "" // taken at once: nothing but sources has it
			before, read = reflect.ValueOf(&intake).Elem(), reflect.ValueOf(&readIntake).Elem()
		case "agents":
			agents, readAgents := k.running.Agents, k.taken.Agents
			agents.Secrets, readAgents.Secrets = nil, nil // taken at once
			before, read = reflect.ValueOf(&agents).Elem(), reflect.ValueOf(&readAgents).Elem()
		case "postgres":
			postgres, readPostgres := k.running.Postgres, k.taken.Postgres
			postgres.URL, readPostgres.URL = withoutLogin(postgres.URL), withoutLogin(readPostgres.URL)
			before, read = reflect.ValueOf(&postgres).Elem(), reflect.ValueOf(&readPostgres).Elem()
		case "listen", "operator", "alerts", "telemetry":
		default:
			continue
		}
		paths := differing(m.name, before, read)
		if len(paths) == 0 {
			continue
		}
		secrets, called, url := k.taken.Agents.Secrets, k.taken.Intake.PublicURL, newestURL(k.running.Postgres.URL, k.taken.Postgres.URL)
		other[i].value.Set(m.value)
		k.taken.Agents.Secrets, k.taken.Intake.PublicURL, k.taken.Postgres.URL = secrets, called, url
		k.keep("", m.name, paths...)
	}
}

// newestURL returns the URL of a ledger with the user and password that were read last; where read leads elsewhere, it waits whole.
func newestURL(running, read schemas.Secret) schemas.Secret {
	if withoutLogin(running) == withoutLogin(read) {
		return read
	}
	return running
}

// long keeps what needs the URL for a result, where the process has none before its next start: a destination that is there stays as it was, and a
// new one is left out, since either would take an answer of 202 for the end.
func (k *taking) long() {
	if !k.uses("listen.agents") || k.taken.Listen.Agents != "" && k.taken.Agents.PublicURL != "" {
		return
	}
	for _, d := range k.read.AllDestinations() {
		if d.Long == nil {
			continue
		}
		of, had := k.taken.Destinations, k.running.Destinations
		if d.Team != "" {
			of, had = k.taken.Teams[d.Team].Destinations, nil
			if before := k.running.Teams[d.Team]; before != nil {
				had = before.Destinations
			}
		}
		k.leftTo = append(k.leftTo, d)
		before := had[d.Name]
		if before == nil {
			delete(of, d.Name)
			k.keep(d.Team, d.Path())
			continue
		}
		of[d.Name] = before
		k.keep(d.Team, d.Path(), differing(d.Path(), reflect.ValueOf(before).Elem(), reflect.ValueOf(d.Destination).Elem())...)
	}
}

// source keeps what the process cannot take of a source. A new one that it has no room for is left out.
func (k *taking) source(team, name string, t Taking) {
	var before *Source
	if of := k.running.Teams[team]; of != nil {
		before = of.Sources[name]
	}
	path := "teams." + team + ".sources." + name
	fits := t.Fits == nil || t.Fits(k.taken, team, name)
	if before == nil {
		if !fits {
			delete(k.taken.Teams[team].Sources, name)
			k.taken.leftOut[team] = true
			k.left = append(k.left, team+"/"+name)
			k.waits = append(k.waits, Waiting{team, path})
		}
		return
	}
	s := *k.taken.Teams[team].Sources[name]
	if s.Topic != before.Topic {
		s.Topic = before.Topic
		k.keep(team, path+".topic")
	}
	if s.Topics != before.Topics {
		paths := differing(path+".topics", reflect.ValueOf(&before.Topics).Elem(), reflect.ValueOf(&s.Topics).Elem())
		s.Topics = before.Topics
		k.keep(team, path+".topics", paths...)
	}
	if !fits {
		s.MaxBody = Size(k.running.MaxBody(team, name))
		k.keep(team, path+".max_body")
	}
	k.taken.Teams[team].Sources[name] = &s
}

// ledger keeps which ledger a subscription has, and how a process gets to it.
func (k *taking) ledger(team, name string, before *Subscription) {
	if before == nil {
		return
	}
	s := *k.taken.Teams[team].Subscriptions[name]
	path := "teams." + team + ".subscriptions." + name + ".postgres"
	was, is := k.running.ledgerOf(namedSubscription{before, team, name}), k.taken.ledgerOf(namedSubscription{&s, team, name})
	kept := before.Postgres
	if was == is && kept != nil && s.Postgres != nil {
		own := *kept
		own.URL = newestURL(own.URL, s.Postgres.URL)
		kept = &own
	}
	paths := differing(path, reflect.ValueOf(&kept).Elem(), reflect.ValueOf(&s.Postgres).Elem())
	if was != is && len(paths) == 0 { // a process follows the reference to its own ledger alone
		paths = []string{path + ".url"}
	}
	if len(paths) == 0 || was == is && !k.running.Runs(team, name) {
		return
	}
	if k.uses("postgres.url") && (k.running.Runs(team, name) || k.taken.Runs(team, name)) { // else it is another process's
		for _, at := range paths {
			k.waits = append(k.waits, Waiting{team, at})
		}
	}
	s.Postgres = kept
	k.taken.Teams[team].Subscriptions[name] = &s
	k.taken.graft(k.running, path)
}

// barred keeps a subscription that may not run any more by what its team has written, where it may go on as it was: a slip of the pen stops nothing
// that runs. It does not run after the next start.
func (k *taking) barred(team, name string, before *Subscription) {
	if before == nil || k.taken.Barred(team, name) == "" || k.running.Barred(team, name) != "" ||
		k.taken.Shares().Withdrawn(team, k.running.SourcesOf(team, name)) != "" {
		return
	}
	for _, action := range before.Actions {
		if _, ok := k.taken.Destination(team, action.To); !ok {
			return
		}
	}
	path := "teams." + team + ".subscriptions." + name
	k.taken.Teams[team].Subscriptions[name] = before
	delete(k.taken.barred, path)
	k.keep(team, path)
}

// withoutWhatIsLeft leaves out the subscriptions that read a source or call a destination which is left out, or keeps them as they were.
func (k *taking) withoutWhatIsLeft() {
	for _, s := range k.taken.subscriptions() {
		if !k.namesWhatIsLeft(s) {
			continue
		}
		delete(k.taken.Teams[s.team].Subscriptions, s.name)
		if before := k.running.Teams[s.team]; before != nil && before.Subscriptions[s.name] != nil {
			k.taken.Teams[s.team].Subscriptions[s.name] = before.Subscriptions[s.name]
		} else {
			k.taken.leftOut[s.team] = true
		}
		k.keep(s.team, s.path())
	}
}

func (k *taking) namesWhatIsLeft(s namedSubscription) bool {
	return slices.ContainsFunc(s.Sources, func(text string) bool {
		of, source := named(s.team, text)
		return slices.Contains(k.left, of+"/"+source)
	}) || slices.ContainsFunc(s.Actions, func(a Action) bool {
		to, ok := k.read.Destination(s.team, a.To)
		return ok && slices.Contains(k.leftTo, to) && !k.named(s, a.To)
	})
}

// named reports whether a subscription that runs names a destination already.
func (k *taking) named(s namedSubscription, to string) bool {
	t := k.running.Teams[s.team]
	return t != nil && t.Subscriptions[s.name] != nil && slices.ContainsFunc(t.Subscriptions[s.name].Actions, func(a Action) bool { return a.To == to })
}

// keep notes that the value at a path, or what differs below it, waits. What is known of the path is that of the running configuration again.
func (k *taking) keep(team, path string, differ ...string) {
	if differ == nil {
		differ = []string{path}
	}
	for _, at := range differ {
		if k.uses(at) && (k.uses("postgres.url") || !strings.Contains(at, ".topics")) { // an intake does not use what its topics are made with
			k.waits = append(k.waits, Waiting{team, at})
		}
	}
	k.taken.graft(k.running, path)
}

// copied returns a copy of which destinations, and sources and subscriptions of teams, can be replaced, and what is known of paths.
func (c *Config) copied() *Config {
	other := *c
	other.Destinations = maps.Clone(c.Destinations)
	other.Teams = make(map[string]*Team, len(c.Teams))
	for name, t := range c.Teams {
		team := *t
		team.Sources, team.Destinations, team.Subscriptions = maps.Clone(t.Sources), maps.Clone(t.Destinations), maps.Clone(t.Subscriptions)
		other.Teams[name] = &team
	}
	other.places, other.unresolved, other.references, other.literal, other.barred = maps.Clone(c.places), maps.Clone(c.unresolved), maps.Clone(c.references), maps.Clone(c.literal), maps.Clone(c.barred)
	other.leftOut = maps.Clone(c.leftOut)
	return &other
}

// graft replaces what c knows of a path, and of what is below it, by what another configuration knows.
func (c *Config) graft(of *Config, path string) {
	graft(c.places, of.places, path)
	graft(c.unresolved, of.unresolved, path)
	graft(c.references, of.references, path)
	for l, at := range of.literal {
		if _, ok := c.literal[l]; !ok && below(at, path) {
			c.literal[l] = at
		}
	}
}

func graft[V any](to, from map[string]V, path string) {
	maps.DeleteFunc(to, func(at string, _ V) bool { return below(at, path) })
	for at, v := range from {
		if below(at, path) {
			to[at] = v
		}
	}
}

// below reports whether a path is another one, or below it.
func below(at, path string) bool {
	rest, ok := strings.CutPrefix(at, path)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// differing returns the paths at which two values of one type differ: of mappings those of their keys, of lists of the same length those of
// their elements. Both are addressable.
func differing(path string, a, b reflect.Value) (list []string) {
	switch {
	case a.Kind() == reflect.Pointer && !a.IsNil() && !b.IsNil():
		return differing(path, a.Elem(), b.Elem())
	case a.Kind() == reflect.Struct && !isScalar(a.Type()):
		return differingMembers(path, members(a), members(b))
	case a.Kind() == reflect.Map && a.Type() != paramsType:
		for _, name := range sortedNames(a, b) {
			x, y := a.MapIndex(name), b.MapIndex(name)
			if !x.IsValid() || !y.IsValid() {
				list = append(list, join(path, name.String()))
			} else {
				list = append(list, differing(join(path, name.String()), addressable(x), addressable(y))...)
			}
		}
		return list
	case a.Kind() == reflect.Slice && a.Len() == b.Len():
		for i := range a.Len() {
			list = append(list, differing(path+"["+itoa(i)+"]", a.Index(i), b.Index(i))...)
		}
		return list
	}
	if reflect.DeepEqual(a.Interface(), b.Interface()) {
		return nil
	}
	return []string{path}
}

// differingMembers is differing for the keys of a mapping. Destinations of two types do not have the same.
func differingMembers(path string, a, b []member) (list []string) {
	byName := map[string]reflect.Value{}
	for _, m := range b {
		byName[m.name] = m.value
	}
	for _, m := range a {
		other, ok := byName[m.name]
		delete(byName, m.name)
		switch {
		case ok && other.Type() == m.value.Type():
			list = append(list, differing(join(path, m.name), m.value, other)...)
		case !isEmpty(m.value):
			list = append(list, join(path, m.name))
		}
	}
	for _, m := range b {
		if v, only := byName[m.name]; only && !isEmpty(v) {
			list = append(list, join(path, m.name))
		}
	}
	return list
}

// sortedNames returns the keys of two maps.
func sortedNames(a, b reflect.Value) []reflect.Value {
	names := append(a.MapKeys(), b.MapKeys()...)
	slices.SortFunc(names, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	return slices.CompactFunc(names, func(a, b reflect.Value) bool { return a.String() == b.String() })
}

// addressable returns a copy of a map's value that can be taken apart as others are.
func addressable(v reflect.Value) reflect.Value {
	to := reflect.New(v.Type()).Elem()
	to.Set(v)
	return to
}
