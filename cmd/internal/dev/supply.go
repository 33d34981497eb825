package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/embedded"
)

// Supply gives a configuration that leaves its servers to `forebay dev` the addresses of dev's: of those that dev runs, or, while it does
// not run, of ones that it starts on the same data and that stop ends. The error is fs.ErrNotExist if dev has never run there.
func Supply(ctx context.Context, o Options, c *config.Config) (stop func(), err error) {
	o.setPaths()
	s := &session{Options: o, config: c}
	made := "broker" // what dev has made at its first start
	if len(c.Kafka.Brokers) > 0 {
		made = "postgres"
	}
	if _, err := os.Stat(filepath.Join(o.Data, made)); err != nil {
		return nil, err
	}
	if len(c.Kafka.Brokers) == 0 {
		dir := filepath.Join(o.Data, "broker")
		s.broker, err = embedded.StartBroker(ctx, embedded.BrokerConfig{Dir: dir, Logger: o.Logger})
		if isHeld(err) {
			var address string
			address, err = embedded.RunningBroker(dir)
			c.Kafka.Brokers = []string{address}
		} else if err == nil {
			c.Kafka.Brokers = s.broker.Addrs()
		}
		if err != nil {
			return nil, fmt.Errorf("reach the broker of forebay dev: %w", err)
		}
	}
	if c.Postgres.URL.IsZero() {
		dir := filepath.Join(o.Data, "postgres")
		s.postgres, err = embedded.StartPostgres(ctx, embedded.PostgresConfig{Dir: dir, Logger: o.Logger})
		if isHeld(err) {
			c.Postgres.URL, err = embedded.RunningPostgres(dir)
		} else if err == nil {
			c.Postgres.URL = s.postgres.URL()
		}
		if err != nil {
			s.close()
			return nil, fmt.Errorf("reach the Postgres of forebay dev: %w", err)
		}
	}
	return s.close, nil
}

func isHeld(err error) bool {
	_, held := errors.AsType[*embedded.HeldError](err)
	return held
}
