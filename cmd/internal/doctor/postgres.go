package doctor

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/app"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/stream/ledger"
)

// examineAll looks at the servers of all ledgers.
func (d *doctor) examineAll(ctx context.Context) []examined {
	if !slices.Contains(d.roles(), config.RoleStream) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, d.Within*2/3)
	defer cancel()
	// Of postgres.embedded nothing can be asked: its server runs with `forebay dev` alone.
	ledgers := slices.DeleteFunc(d.file.Ledgers(), func(l config.Ledger) bool { return l.URL.IsZero() })
	list := make([]examined, len(ledgers))
	var all sync.WaitGroup
	for i, l := range ledgers {
		all.Go(func() {
			list[i] = examined{Ledger: l}
			if list[i].cfg, list[i].err = app.LedgerConfig(l, slog.New(slog.DiscardHandler)); list[i].err == nil {
				if l.Path == "postgres" {
					list[i].cfg.StatementConns = int32(d.file.Statements())
				}
				list[i].found, list[i].err = ledger.Examine(ctx, list[i].cfg)
			}
		})
	}
	all.Wait()
	return list
}

// noLedger says why no ledger can be looked at; empty if one can.
func (d *doctor) noLedger() string {
	if none := d.noStream(); none != "" {
		return none
	}
	if len(d.examine()) == 0 {
		return "postgres.embedded is for `forebay dev`, which brings its own server"
	}
	return ""
}

// clockApart is how far a server's clock may be from ours: more than an answer takes, and less than anybody waits for.
const clockApart = time.Minute

// servers says what of the server of each ledger a process would not start with, and what the role lacks.
func (d *doctor) servers(context.Context) (found []Finding) {
	for _, x := range d.examine() {
		if x.err != nil {
			found = append(found, problem(x.Path, x.err.Error(), "set "+x.Path+".url to a server that this machine can reach, with the user's password"))
			continue
		}
		for _, l := range x.found.Lacks {
			found = append(found, problem(x.Path, l.What, l.Fix))
		}
		if x.found.Migration != nil {
			found = append(found, problem(x.Path, x.found.Migration.Error(), "forebay migrate -c "+d.Path))
		}
		if x.found.Ahead.Abs() > clockApart {
			found = append(found, warning(x.Path, fmt.Sprintf("its clock and this machine's are %s apart: gaps, retries, approvals and budgets wait by its clock, and as much longer where that is set back",
				config.Duration(x.found.Ahead.Abs().Round(time.Second))), "have both machines take the time from the same servers (NTP)"))
		}
		if x.found.Superuser {
			found = append(found, warning(x.Path, "role "+x.found.Role+" is a superuser: whoever has its password has all databases of the server",
				x.found.OwnRole(x.Schema)+"; then that role in "+x.Path+".url"))
		} else if len(x.found.Lacks) == 0 && x.found.Migration == nil {
			found = append(found, ok(x.Path, "PostgreSQL %s; role %s has what it needs", x.found.Version, x.found.Role))
		}
	}
	return found
}

// connections holds the pools of the ledgers against what their servers let them have.
func (d *doctor) connections(context.Context) (found []Finding) {
	for _, x := range d.examine() {
		if x.err != nil {
			found = append(found, unknown(x.Path, "the server does not answer, see the check postgres"))
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
