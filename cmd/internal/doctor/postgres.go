package doctor

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/app"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/stream/ledger"
)

// examineAll looks at the servers of all ledgers.
func (d *doctor) examineAll(ctx context.Context) []examined {
	if d.postgres == nil || !d.has(config.RoleStream) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, d.Within*2/3)
	defer cancel()
	// Of postgres.embedded nothing can be asked: its server runs with `forebay dev` alone.
	ledgers := slices.DeleteFunc(d.postgres.Ledgers(), func(l config.Ledger) bool { return l.URL.IsZero() })
	list := make([]examined, len(ledgers))
	var all sync.WaitGroup
	for i, l := range ledgers {
		all.Go(func() {
			list[i] = examined{Ledger: l}
			if list[i].cfg, list[i].err = app.LedgerConfig(l, slog.New(slog.DiscardHandler)); list[i].err == nil {
				if l.Path == "postgres" {
					list[i].cfg.StatementConns = int32(d.postgres.Statements())
				}
				list[i].found, list[i].err = ledger.Examine(ctx, list[i].cfg)
			}
		})
	}
	all.Wait()
	return list
}

// noLedger says why no ledger can be looked at; nil if one can.
func (d *doctor) noLedger() []Finding {
	switch {
	case d.postgres == nil:
		return d.notRead()
	case !d.has(config.RoleStream):
		return []Finding{unknown("", "not made: the ledger is of the role stream", "")}
	case len(d.examine()) == 0:
		return []Finding{unknown("", "not made: postgres.embedded is for `forebay dev`, which brings its own server", "postgres: {url: ...}")}
	}
	return nil
}

// servers checks the server of each ledger: version, settings, the role's rights, the schema. One without a fault gets one finding that says so.
func (d *doctor) servers(context.Context) (found []Finding) {
	if skipped := d.noLedger(); skipped != nil {
		return skipped
	}
	for _, x := range d.examine() {
		if x.err != nil {
			found = append(found, problem(x.Path, x.err.Error(), "set "+x.Path+".url to a server that this machine can reach, with the user's password"))
			continue
		}
		result := d.server(x)
		if len(result) == 0 {
			result = []Finding{ok(x.Path, "PostgreSQL %s; role %s has what it needs; with fsync, full_page_writes and synchronous_commit (%s) what was acknowledged survives a crash", x.found.Version, x.found.Role, x.found.Settings["synchronous_commit"])}
		}
		found = append(found, result...)
	}
	return found
}

func (d *doctor) server(x examined) (found []Finding) {
	is := x.found
	if is.Server/10000 < ledger.OldestServer {
		found = append(found, problem(x.Path, fmt.Sprintf("PostgreSQL %s: %d is the oldest that works", is.Version, ledger.OldestServer), "upgrade the server, or name another one"))
	}
	if is.Standby {
		found = append(found, problem(x.Path, "the server is a standby and cannot be written", x.Path+".url: the primary's address, or several hosts with target_session_attrs=read-write"))
	}
	why := ledger.LosesCommits(is.Settings)
	for _, name := range sorted(why) {
		fix := fmt.Sprintf("ALTER SYSTEM SET %s = on; SELECT pg_reload_conf()", name)
		if name == "synchronous_commit" {
			fix = fmt.Sprintf("ALTER ROLE %s SET synchronous_commit = on", is.Role)
		}
		found = append(found, problem(x.Path, fmt.Sprintf("%s is %s: %s", name, is.Settings[name], why[name]), fix))
	}
	for _, l := range is.Lacks {
		found = append(found, problem(x.Path, "role "+is.Role+": "+l.What, l.Grant))
	}
	if is.Superuser {
		found = append(found, warning(x.Path, "role "+is.Role+" is a superuser: whoever has its password has all databases of the server",
			fmt.Sprintf("CREATE ROLE forebay LOGIN PASSWORD '...'; CREATE SCHEMA %s AUTHORIZATION forebay; and that role in %s.url", x.Schema, x.Path)))
	}
	if is.Migration != nil {
		found = append(found, problem(x.Path, is.Migration.Error(), "forebay migrate -c "+d.Path))
	}
	return found
}

// connections holds the pools of the ledgers against what their servers let them have.
func (d *doctor) connections(context.Context) (found []Finding) {
	if none := d.noLedger(); none != nil {
		return none
	}
	for _, x := range d.examine() {
		if x.err != nil {
			found = append(found, unknown(x.Path, "not made: the server does not answer, see the check postgres", ""))
			continue
		}
		c, needs := x.found.Conns, x.cfg.Connections()
		seen := fmt.Sprintf("a process makes up to %d connections; role %s may have %d, and %d of the server's %d are in use", needs, x.found.Role, c.Most(), c.Used, c.Max)
		fewer := fmt.Sprintf("%s: {connections: %d}, or max_connections = %d", x.Path, max(1, x.Connections-(needs-c.Most())), c.Max+needs)
		switch {
		case needs > c.Most():
			found = append(found, problem(x.Path, seen, fewer))
		case needs > c.Free()+c.Ledgers: // those of ledgers may be this very process's
			found = append(found, warning(x.Path, seen+": not enough are free", "SELECT application_name, count(*) FROM pg_stat_activity GROUP BY 1; then "+fewer))
		default:
			found = append(found, ok(x.Path, "%s: enough for %d processes", seen, c.Most()/needs))
		}
	}
	return found
}

// clockOff is how far a clock may be off before it is a warning, clockWrong before it is a problem: signatures carry times, which are
// refused beyond five minutes.
const clockOff, clockWrong = 2 * time.Second, time.Minute

// clock holds this machine's clock against those of Postgres and of a running process.
func (d *doctor) clock(ctx context.Context) (found []Finding) {
	for _, x := range d.examine() {
		if x.found != nil {
			found = append(found, skew("the server of "+x.Path, x.found.Ahead, x.found.Within))
		}
	}
	if d.Client != nil {
		if p, err := d.Client.Ready(ctx); err == nil {
			found = append(found, skew("the process at "+d.URL, p.Ahead, p.Within))
		}
	}
	if len(found) == 0 {
		found = append(found, unknown("", "not made: neither Postgres nor a process has told its time", ""))
	}
	return append(found, unknown("brokers", "not made: Kafka tells its time in records alone, and none is written here; a running intake tells of it (wrong_clock)", "forebay attention --kind wrong_clock"+d.Asking))
}

// skew says how far a clock is from this machine's.
func skew(of string, ahead, within time.Duration) Finding {
	const fix = "timedatectl set-ntp true, on both machines"
	direction := "ahead of"
	off := ahead
	if off < 0 {
		direction, off = "behind", -off
	}
	text := fmt.Sprintf("%s %s this machine's clock, give or take %s", off.Round(100*time.Microsecond), direction, within.Round(100*time.Microsecond))
	switch off -= within; {
	case off > clockWrong:
		return problem(of, text+": signatures and versions by time are judged wrong", fix)
	case off > clockOff:
		return warning(of, text, fix)
	}
	return ok(of, "%s", strings.TrimSpace(text))
}
