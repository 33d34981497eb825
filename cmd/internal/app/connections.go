package app

import (
	"math"

	"github.com/forebay-io/forebay/ingest"
)

// Of the files that the process may have open, the intake's connections may be one in two, those of the listener for agents one in eight, and
// those of the operator listener one in sixteen. What is left is for Kafka, Postgres, destinations and files.
const (
	intakeShare   = 2
	agentsShare   = 8
	operatorShare = 16
)

// mostOperators are the connections of the operator listener at most: browsers have six each, and a live view more.
const mostOperators = 1024

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

// bound bounds the connections of a listener. part is what its metric is of.
func (a *App) bound(l *listener, part string, limits ingest.Limits) {
	ingest.NewConnections(limits, part, a.registry, a.log).Bind(l.server)
	if wanted := a.file().Intake.Connections; limits.Connections < wanted {
		a.log.Info("fewer connections at once than intake.connections: the process may not have more files open; raise that limit (ulimit -n, LimitNOFILE of systemd)",
			"listener", l.name, "connections", limits.Connections, "of_one_address", limits.AddressConnections, "wanted", wanted, "files", fileLimit())
	}
}

// boundOperator bounds the connections of the operator listener.
func (a *App) boundOperator() {
	limits := ingest.Limits{Connections: min(mostOperators, connectionsOf(fileLimit(), operatorShare)), TrustedProxies: a.file().Operator.BehindProxy}.WithDefaults(1)
	ingest.NewConnections(limits, "operator", a.registry, a.log).Bind(a.operator.server)
}
