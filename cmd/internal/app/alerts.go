package app

import (
	"fmt"
	"net"
	"os"

	"github.com/forebay-io/forebay/cmd/internal/alerts"
)

// newAlerts makes what tells of alerts in this process; nil if the file names nobody to tell.
func newAlerts(a *App) (*alerts.Notifier, error) {
	c := a.file().Alerts
	if len(c.Receivers) == 0 {
		return nil, nil
	}
	cfg := alerts.Config{Rules: c.Rules(), Every: c.Every.Std(), Repeat: c.Repeat.Std(), Gatherer: a.registry, Logger: a.log, Registerer: a.registry}
	for _, name := range sortedKeys(c.Receivers) {
		d := c.Destination(name)
		made, err := newSink(a.file(), d, nil, a.log.With("receiver", name))
		if err != nil {
			return nil, fmt.Errorf("receiver %s of alerts: %w", name, err)
		}
		cfg.Receivers = append(cfg.Receivers, &alerts.Receiver{Name: name, Sink: made, Wants: c.Receivers[name].Wants, Timeout: d.Timeout.Std(), Settle: d.Keys.Describe().Settle})
	}
	if a.stream != nil {
		cfg.Board = a.board
	} else {
		cfg.Instance = a.instance()
	}
	return alerts.New(cfg)
}

// instance names this process among those that share nothing, also after a restart: its host, and the port that it is asked at, which no
// other process of the host has.
func (a *App) instance() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	_, port, _ := net.SplitHostPort(a.file().Listen.Operator) // config.Load has checked it
	return net.JoinHostPort(host, port)
}

// board is the ledger, which says what other processes have told and what is silenced.
func (a *App) board() (alerts.Board, error) {
	l, err := a.stream.openLedger()
	if err != nil {
		return nil, err
	}
	return l, nil
}
