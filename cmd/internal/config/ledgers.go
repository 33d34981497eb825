package config

import (
	"cmp"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/schemas"
	postgressink "github.com/forebay-io/forebay/sinks/postgres"
)

// Ledger is one of the ledgers that the file names: that of its top, or that of subscriptions which have postgres of their own. A process
// with the stream role has one of them.
type Ledger struct {
	Postgres
	// Subscriptions are those whose ledger it is, as TEAM.SUBSCRIPTION, sorted.
	Subscriptions []string
	// Path is where the file has it: postgres, or that of the first of Subscriptions.
	Path string
	// OfTeam is set if a team's file names it, which is not trusted: see [Config.TeamsDir]. Networks are those that it may lead to.
	OfTeam   bool
	Networks []netip.Prefix
}

// namedSubscription is a subscription with its names.
type namedSubscription struct {
	*Subscription
	team, name string
}

func (s namedSubscription) slashed() string  { return s.team + "/" + s.name }
func (s namedSubscription) fullName() string { return s.team + "." + s.name }
func (s namedSubscription) path() string {
	return "teams." + s.team + ".subscriptions." + s.name
}

// subscriptions returns those of all teams, sorted.
func (c *Config) subscriptions() (list []namedSubscription) {
	for _, team := range keys(c.Teams) {
		for _, name := range keys(c.Teams[team].Subscriptions) {
			list = append(list, namedSubscription{c.Teams[team].Subscriptions[name], team, name})
		}
	}
	return list
}

// ledgerKey tells ledgers apart: the same URL and schema are the same ledger. It has the URL as it is written, since a process resolves only
// that of its own ledger.
type ledgerKey struct{ url, schema string }

// ledgerOf returns which ledger a subscription has; the zero key is that of the top of the file.
func (c *Config) ledgerOf(s namedSubscription) ledgerKey {
	if s.Postgres == nil || c.oneLedger {
		return ledgerKey{}
	}
	url, referred := c.written(s.path() + ".postgres.url")
	if !referred {
		url = s.Postgres.URL.Reveal()
	}
	return ledgerKey{url, s.Postgres.Schema}
}

// Ledgers returns the ledgers of all subscriptions, or of those that were chosen: that of the top of the file first.
func (c *Config) Ledgers() (list []Ledger) {
	index := map[ledgerKey]int{}
	if len(c.chosen) == 0 && !c.Postgres.URL.IsZero() {
		list, index[ledgerKey{}] = append(list, Ledger{Postgres: c.Postgres, Path: "postgres"}), 0
	}
	for _, s := range c.subscriptions() {
		if len(c.chosen) > 0 && !c.chooses(s) {
			continue
		}
		i, ok := index[c.ledgerOf(s)]
		if !ok {
			i = len(list)
			list, index[c.ledgerOf(s)] = append(list, c.newLedger(s)), i
		}
		list[i].Subscriptions = append(list[i].Subscriptions, s.fullName())
	}
	slices.SortStableFunc(list, func(a, b Ledger) int { return cmp.Compare(isOwn(a), isOwn(b)) })
	return list
}

func isOwn(l Ledger) int {
	if l.Path == "postgres" {
		return 0
	}
	return 1
}

// newLedger returns the ledger of a subscription, without its Subscriptions.
func (c *Config) newLedger(s namedSubscription) Ledger {
	if c.ledgerOf(s) == (ledgerKey{}) {
		return Ledger{Postgres: c.Postgres, Path: "postgres"}
	}
	own, at := s.Postgres, s.path()+".postgres"
	return Ledger{Path: at, OfTeam: c.at(at).file != c.places[""].file, Networks: c.TeamsDir.References.Networks, Postgres: Postgres{URL: own.URL, Schema: own.Schema, Connections: own.Connections,
		TransactionTimeout: own.TransactionTimeout, Statements: c.Postgres.Statements}}
}

// Ledger returns the ledger of a process with the stream role: that of the subscriptions that were chosen, or else of the top of the file.
func (c *Config) Ledger() Ledger {
	for _, s := range c.subscriptions() {
		if c.chooses(s) {
			return c.newLedger(s)
		}
	}
	return Ledger{Postgres: c.Postgres, Path: "postgres"}
}

// LedgerNow returns the ledger of a process that runs, which was start when it began, with the user and password that were read last: of the
// subscription that start is of or, where that is gone, of another one with the same ledger. A URL that leads elsewhere is not followed.
func (c *Config) LedgerNow(start Ledger) Ledger {
	now := start
	if c.ours == (ledgerKey{}) {
		now.URL = newestURL(start.URL, c.Postgres.URL)
		return now
	}
	for _, s := range c.subscriptions() {
		if !c.chooses(s) || c.ledgerOf(s) != c.ours {
			continue
		}
		first := s.path()+".postgres" == start.Path
		if first || now.URL == start.URL {
			now.URL = newestURL(start.URL, s.Postgres.URL)
		}
		if first {
			break
		}
	}
	return now
}

// withoutLogin returns a ledger's URL without its user and password, which new connections take from what was read last. The user stays where no
// database is named: Postgres takes the one that is called as the user.
func withoutLogin(of schemas.Secret) schemas.Secret {
	u, err := url.Parse(of.Reveal())
	if err != nil {
		return of
	}
	q := u.Query()
	database := slices.Concat(q["dbname"], q["database"])
	if len(database) == 0 {
		database = []string{strings.Trim(u.Path, "/")}
	}
	u.User = url.User(u.User.Username())
	if !slices.Contains(database, "") {
		u.User = nil
		q.Del("user")
	}
	q.Del("password")
	u.RawQuery = q.Encode()
	return schemas.NewSecret(u.String())
}

// HasLedger reports whether a subscription's ledger is that of this process.
func (c *Config) HasLedger(team, subscription string) bool {
	t := c.Teams[team]
	if t == nil || t.Subscriptions[subscription] == nil {
		return false
	}
	return c.ledgerOf(namedSubscription{t.Subscriptions[subscription], team, subscription}) == c.ours
}

// chosenLedger returns which ledger a process with the stream role has.
func (c *Config) chosenLedger() ledgerKey {
	for _, s := range c.subscriptions() {
		if c.chooses(s) {
			return c.ledgerOf(s)
		}
	}
	return ledgerKey{}
}

// Runs reports whether a process with the stream role runs a subscription: it was chosen, or none was, and it has the ledger of the top of
// the file.
func (c *Config) Runs(team, subscription string) bool {
	if len(c.chosen) == 0 {
		return c.HasLedger(team, subscription)
	}
	t := c.Teams[team]
	return t != nil && t.Subscriptions[subscription] != nil && c.chooses(namedSubscription{t.Subscriptions[subscription], team, subscription})
}

// Elsewhere returns the subscriptions whose ledger is not this process's, as TEAM.SUBSCRIPTION; of one team, or of all where team is empty.
func (c *Config) Elsewhere(team string) (list []string) {
	for _, s := range c.subscriptions() {
		if (team == "" || s.team == team) && !c.HasLedger(s.team, s.name) {
			list = append(list, s.fullName())
		}
	}
	return list
}

// TakenTogether returns the subscriptions with postgres of their own whose ledger `forebay dev` keeps with the others, as TEAM.SUBSCRIPTION.
func (c *Config) TakenTogether() (list []string) {
	for _, s := range c.subscriptions() {
		if c.oneLedger && s.Postgres != nil {
			list = append(list, s.fullName())
		}
	}
	return list
}

// UsedElsewhere returns the subscriptions that use a destination and whose ledger is not this process's, as TEAM.SUBSCRIPTION.
func (c *Config) UsedElsewhere(d NamedDestination) (list []string) {
	for _, u := range c.usesOf(d) {
		if name := u.team + "." + u.subscription; !c.HasLedger(u.team, u.subscription) && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

func (c *Config) chooses(s namedSubscription) bool {
	return slices.ContainsFunc(c.chosen, func(pattern string) bool { return chosenBy(pattern, s.slashed()) })
}

// chosenBy reports whether a pattern of Options.Subscriptions means a subscription, TEAM/SUBSCRIPTION. It may be written with a dot, as the
// Kafka group is.
func chosenBy(pattern, of string) bool {
	ok, err := path.Match(strings.Replace(pattern, ".", "/", 1), of)
	return ok && err == nil
}

// chooseOwn reports whether all subscriptions that were chosen have ledgers of their own. It looks through the files once, before they are
// loaded: which ledger is opened decides what is resolved.
func (l *loader) chooseOwn() bool {
	look := loader{options: l.options, env: l.env}
	look.options.Roles, look.options.Subscriptions = []Role{RoleACLs}, nil
	look.options.Hide, look.options.Shared = nil, nil
	c, _ := look.run() // its problems are found again
	var chosen []namedSubscription
	for _, s := range c.subscriptions() {
		if l.options.chooses(s.slashed()) {
			chosen = append(chosen, s)
		}
	}
	return len(chosen) > 0 && !slices.ContainsFunc(chosen, func(s namedSubscription) bool { return s.Postgres == nil })
}

// usesMainLedger reports whether some subscription has the ledger of the top of the file, or there is none yet.
func (c *Config) usesMainLedger() bool {
	all := c.subscriptions()
	return len(all) == 0 || slices.ContainsFunc(all, func(s namedSubscription) bool { return c.ledgerOf(s) == (ledgerKey{}) })
}

// ledgers checks which ledgers there are, and that those who were chosen have one.
func (ck *checker) ledgers() {
	own := ck.ownLedgers()
	for _, s := range own {
		ck.ownPostgres(s)
	}
	ck.sameLedger()
	ck.chosen()
	ck.resultsOfOwn()
	switch {
	case len(own) == 0:
	case ck.c.oneLedger && !ck.c.Postgres.URL.IsZero():
		ck.problem(own[0].path()+".postgres", "`forebay dev` is one process with one ledger: leave postgres out here, or write postgres: {embedded: true} at the top, and dev keeps all of them in the Postgres that it brings")
	case ck.c.oneLedger:
		ck.note(own[0].path()+".postgres", "`forebay dev` keeps all ledgers in the one Postgres that it brings")
	case len(ck.c.chosen) > 0:
	case ck.options.Run && slices.Contains(ck.options.Roles, RoleStream) && !ck.c.usesMainLedger():
		ck.problem("postgres.url", "every subscription has postgres of its own, so this process would run none: name those that it is to run with --subscriptions, or leave stream out of --roles")
	case !ck.options.Run && (len(ck.options.Roles) == 0 || slices.Contains(ck.options.Roles, RoleStream)):
		ck.noteProcesses()
	}
}

// ownLedgers returns the subscriptions with postgres of their own.
func (ck *checker) ownLedgers() (list []namedSubscription) {
	for _, s := range ck.c.subscriptions() {
		if s.Postgres != nil {
			list = append(list, s)
		}
	}
	return list
}

// noteProcesses says of each own ledger which process runs its subscriptions.
func (ck *checker) noteProcesses() {
	of := map[ledgerKey][]string{}
	own := ck.ownLedgers()
	for _, s := range own {
		of[ck.c.ledgerOf(s)] = append(of[ck.c.ledgerOf(s)], s.fullName())
	}
	for _, s := range own {
		if list := of[ck.c.ledgerOf(s)]; list[0] == s.fullName() {
			ck.note(s.path()+".postgres", "a process of its own runs it: `forebay serve --roles stream --subscriptions %s`", strings.Join(list, ","))
		}
	}
}

// ownPostgres checks where a subscription has its ledger.
func (ck *checker) ownPostgres(s namedSubscription) {
	at, own := s.path()+".postgres", s.Postgres
	ck.connection(at, own.URL, own.Schema, own.TransactionTimeout)
	if ck.unresolved(at+".url") || own.URL.IsZero() || ck.c.at(at).file == ck.c.places[""].file {
		return
	}
	if err := postgressink.CheckURL(own.URL.Reveal()); err != nil {
		ck.problem(at+".url", "in a team's file: %v", err)
	}
}

// sameLedger refuses one ledger with two sizes: a process of it would have either.
func (ck *checker) sameLedger() {
	first := map[ledgerKey]namedSubscription{}
	for _, s := range ck.ownLedgers() {
		key := ck.c.ledgerOf(s)
		before, ok := first[key]
		if !ok {
			first[key] = s
			continue
		}
		if before.Postgres.Connections != s.Postgres.Connections || before.Postgres.TransactionTimeout != s.Postgres.TransactionTimeout {
			ck.problem(s.path()+".postgres", "is the ledger of %s, too, with other connections or another transaction_timeout: write the same in both", before.fullName())
		}
	}
}

// resultsOfOwn notes that the processes of several ledgers would be called at one address: a result is for the process that made the call.
func (ck *checker) resultsOfOwn() {
	_, byProcess := ck.c.written("agents.public_url")
	if byProcess || ck.c.Agents.PublicURL == "" || ck.c.oneLedger || ck.options.Run {
		return
	}
	for _, s := range ck.ownLedgers() {
		for _, a := range s.Actions {
			if d, ok := ck.c.Destination(s.team, a.To); ok && d.Long != nil {
				ck.note("agents.public_url", "is the same for the processes of all ledgers, but %s (%s) reports results later, "+
					"and only processes with the ledger of the call can take them: write ${env:AGENTS_URL}, and give the processes of each ledger their own address", a.To, s.fullName())
				return
			}
		}
	}
}

// chosen checks that what the command line names is there, and that a process that runs it has one ledger.
func (ck *checker) chosen() {
	all := ck.c.subscriptions()
	known := make([]string, len(all))
	for i, s := range all {
		known[i] = s.fullName()
	}
	// A process that runs others of its ledger is not kept from it by a team that has taken its subscription out.
	say := ck.problem
	if ck.options.Run && slices.Contains(ck.options.Roles, RoleStream) && slices.ContainsFunc(all, ck.c.chooses) {
		say = ck.note
	}
	for _, pattern := range ck.c.chosen {
		if !slices.ContainsFunc(all, func(s namedSubscription) bool { return chosenBy(pattern, s.slashed()) }) {
			say("", "--subscriptions names %s, and there is no subscription of that name%s (TEAM.SUBSCRIPTION; * stands for any part of a name)", clip(pattern),
				names.DidYouMean(strings.Replace(pattern, "/", ".", 1), known))
		}
	}
	if slices.Contains(ck.options.Roles, RoleMigrate) {
		return
	}
	var first *namedSubscription
	for _, s := range all {
		switch {
		case !ck.c.chooses(s):
		case first == nil:
			first = &s
		case ck.c.ledgerOf(s) != ck.c.ledgerOf(*first):
			ck.problem(s.path(), "--subscriptions names %s (%s) and %s (%s), which have different ledgers: a process has one; start one for each", first.fullName(), ck.ledgerText(*first), s.fullName(), ck.ledgerText(s))
			return
		}
	}
}

// ledgerText says where a subscription's ledger is, without its URL.
func (ck *checker) ledgerText(s namedSubscription) string {
	at := "postgres"
	if s.Postgres != nil {
		at = s.path() + ".postgres"
	}
	place := ck.c.at(at)
	return at + ", line " + itoa(place.line)
}

// connection checks what says where a ledger is.
func (ck *checker) connection(at string, url schemas.Secret, schema string, timeout Duration) {
	if !ck.unresolved(at+".url") && !url.IsZero() && !isPostgres(url.Reveal()) {
		ck.problem(at+".url", "is not a URL of the form postgres://user:password@host:5432/database")
	}
	if !ck.unresolved(at+".schema") && !schemaName.MatchString(schema) {
		ck.problem(at+".schema", "%q must match [a-z_][a-z0-9_]{0,39}", clip(schema))
	}
	// With less than 2 s, a checkpoint or a slow synchronous standby would end batches. With more than a minute, the quarter of it that a
	// stopping process may wait for a transaction would be too much of the drain budget of 25 s.
	ck.between(at+".transaction_timeout", timeout, Duration(2*time.Second), Duration(time.Minute))
}
