package app

import (
	"math"
	"net/netip"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/ingest"
)

// Of the files that the process may have open, the intake's connections may be one in two, those of the listener for agents one in eight, and
// those of the operator listener and of the one for health one in sixteen each. What is left is for Kafka, Postgres, destinations and files.
const (
	intakeShare  = 2
	agentsShare  = 8
	processShare = 16
)

// mostOfProcess are the connections of the operator listener, and of the one for health, at most: browsers have six each.
const mostOfProcess = 1024

// limits returns the limits of the file for a listener, with no more connections than its share of the process's files.
func (a *App) limits(share uint64) ingest.Limits {
	return a.file().IntakeLimits(connectionsOf(fileLimit(), share))
}

// connectionsOf returns how many connections a share of so many files is.
func connectionsOf(files, share uint64) int {
	if files == 0 {
		return math.MaxInt
	}
	return int(max(2, min(files/share, math.MaxInt32)))
}

// lessThanWanted says that a listener may have fewer connections than the file says.
func (a *App) lessThanWanted(l *listener, limits ingest.Limits) {
	if wanted := a.file().Intake.Connections; limits.Connections < wanted {
		a.log.Info("fewer connections at once than intake.connections: the process may not have more files open; raise that limit (ulimit -n, LimitNOFILE of systemd)",
			"listener", l.name, "connections", limits.Connections, "of_one_address", limits.AddressConnections, "wanted", wanted, "files", fileLimit())
	}
}

// door bounds the connections of a listener that operators, agents or probes ask, and what whoever is not known may use of it. open says that
// nobody has to show who they are.
func (a *App) door(l *listener, limits ingest.Limits, open bool) {
	ingest.NewConnections(limits, l.name, a.registry, a.log).Door(l.server, api.Probes, open)
}

// ofProcess returns the limits of a listener that says how the process is.
func ofProcess(proxies []netip.Prefix) ingest.Limits {
	return ingest.Limits{Connections: min(mostOfProcess, connectionsOf(fileLimit(), processShare)), TrustedProxies: proxies}.WithDefaults(1)
}
