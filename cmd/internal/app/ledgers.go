package app

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/sinks/guard"
	postgressink "github.com/forebay-io/forebay/sinks/postgres"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
)

// A process with the stream role has one ledger: that of the subscriptions which it runs. So each id, cursor, list and replay of its API is of
// one ledger, and what a subscription of another one is asked for is refused with whom to ask.

// LedgerConfig returns the configuration of a ledger of the file. That of a team's file is nothing but what its URL says: it logs in as nobody
// else, and leads where the main file lets teams' files lead.
func LedgerConfig(l config.Ledger, log *slog.Logger) (ledger.Config, error) {
	cfg := ledger.Config{URL: l.URL, Key: l.Path + ".url", Schema: l.Schema, MaxConns: int32(l.Connections), TxTimeout: time.Duration(l.TransactionTimeout), Logger: log}
	if !l.OfTeam {
		return cfg, nil
	}
	full, plain, err := postgressink.Alone(l.URL.Reveal())
	if err != nil {
		return cfg, schemas.Errorf(schemas.Invalid, "open the ledger", "%s.url %w", l.Path, err)
	}
	may, err := guard.Socket(l.Networks, plain)
	if err != nil {
		return cfg, err
	}
	cfg.URL = schemas.NewSecret(full)
	cfg.May = func(network, address string) error {
		if err := may(network, address); err != nil {
			return fmt.Errorf("%v: %s.url is in a team's file, so it may lead only to public addresses over TLS, or into teams_dir.references.networks", err, l.Path) //nolint:errorlint // errors of connections show their innermost cause alone
		}
		return nil
	}
	return cfg, nil
}

// ledgerConfig returns the configuration of this process's ledger, which was start when the process began. Each new connection logs in as the
// files say by then.
func (a *App) ledgerConfig(start config.Ledger) (ledger.Config, error) {
	now := func() (ledger.Config, error) { return LedgerConfig(a.file().LedgerNow(start), a.log) }
	cfg, err := now()
	cfg.StatementConns = int32(a.file().Statements())
	cfg.Now = func() (schemas.Secret, error) {
		cfg, err := now()
		return cfg.URL, err
	}
	return cfg, err
}

// runs returns the subscriptions that this process runs, sorted.
func (s *streams) runs() (list []nameInTeam) {
	file := s.a.file()
	for _, team := range sortedKeys(file.Teams) {
		for _, name := range sortedKeys(file.Teams[team].Subscriptions) {
			if file.Runs(team, name) {
				list = append(list, nameInTeam{team, name})
			}
		}
	}
	return list
}

// sayElsewhere logs which subscriptions of the file this process does not run.
func (s *streams) sayElsewhere() {
	var others []string
	file := s.a.file()
	for _, n := range configured(file).subscriptions {
		if !file.Runs(n.Team, n.Name) {
			others = append(others, n.Team+"."+n.Name)
		}
	}
	if len(others) > 0 {
		s.a.log.Info("this process does not run these subscriptions: they have another ledger (postgres of their own, or that of the top), or are not in its --subscriptions; "+
			"another process must run them", "subscriptions", strings.Join(others, ","))
	}
}

// elsewhere is the answer to a question about subscriptions, TEAM.SUBSCRIPTION, whose ledger is not this process's.
func (a *App) elsewhere(names ...string) error {
	how := "without --subscriptions"
	if file := a.file(); slices.ContainsFunc(names, func(name string) bool {
		return subscriptionIn(file, subscriptionOf(name)).Postgres != nil
	}) {
		how = "--subscriptions " + strings.Join(names, ",")
	}
	return schemas.Errorf(schemas.Conflict, "", "the ledger of %s is not this process's: ask the process that runs it (`forebay serve --roles stream`, %s), by --url", strings.Join(names, ","), how)
}

// here refuses a subscription of the file whose ledger is not this process's. What the file does not have is left to whoever looks for it.
func (a *App) here(at nameInTeam) error {
	file := a.file()
	if t := file.Teams[at.team]; t != nil && t.Subscriptions[at.name] != nil && !file.HasLedger(at.team, at.name) {
		return a.elsewhere(at.team + "." + at.name)
	}
	return nil
}

// hereOf refuses a question about a subscription whose ledger is not this process's, or about a team of which that is so of all
// subscriptions: an empty list would look like an answer.
func (a *App) hereOf(team, subscription string) error {
	if subscription != "" {
		return a.here(nameInTeam{team, subscription})
	}
	t := a.file().Teams[team]
	if others := a.file().Elsewhere(team); team != "" && t != nil && len(others) > 0 && len(others) == len(t.Subscriptions) {
		return a.elsewhere(others...)
	}
	return nil
}

// leftOut returns the subscriptions that a list leaves out, TEAM.SUBSCRIPTION, since their ledger is another process's: of a team, or of all.
func (a *App) leftOut(team, subscription string) []string {
	if subscription != "" {
		return nil
	}
	return a.file().Elsewhere(team)
}

// hintOtherLedgers adds to the error for an id that is not found that another process may know it: ids are of one ledger. It names the
// subscriptions of one team, or of all where team is empty.
func (a *App) hintOtherLedgers(team string, err error) error {
	if others := a.file().Elsewhere(team); schemas.KindOf(err) == schemas.NotFound && len(others) > 0 {
		return schemas.Errorf(schemas.NotFound, "", "%w; another process has the ledger of %s: ask that one, too, by --url", err, strings.Join(others, ", "))
	}
	return err
}

// ofThisLedger leaves out what waits of subscriptions that have another ledger by now, and their dead letters: nobody carries out here what an
// operator would say.
func ofThisLedger(c *config.Config, counts []inbox.AttentionCount, dead []inbox.DeadFacts) ([]inbox.AttentionCount, []inbox.DeadFacts) {
	others := c.Elsewhere("")
	counts = slices.DeleteFunc(counts, func(n inbox.AttentionCount) bool { return slices.Contains(others, n.Team+"."+n.Subscription) })
	dead = slices.DeleteFunc(dead, func(d inbox.DeadFacts) bool { return slices.Contains(others, d.Team+"."+d.Subscription) })
	return counts, dead
}

// unknownElsewhere returns the kinds of which this process knows only a part, since the ledger of these subscriptions is another one. Those of
// which it knows nothing are in unknown already.
func unknownElsewhere(others []string, unknown []api.AttentionUnknown, only string) (list []api.AttentionUnknown) {
	for _, kind := range api.AttentionKinds() {
		ofSource := kind == api.KindKeys || kind == api.KindExpires || kind == api.KindClock || kind == api.KindSpooling || kind == api.KindQuarantinedDelivery
		is := slices.ContainsFunc(unknown, func(u api.AttentionUnknown) bool { return u.Kind == kind })
		if !ofSource && !is && (only == "" || only == kind) {
			list = append(list, api.AttentionUnknown{Kind: kind, Why: "of " + strings.Join(others, ", ") + ": another process has that ledger; ask that one, by --url"})
		}
	}
	return list
}
