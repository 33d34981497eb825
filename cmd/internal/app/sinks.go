package app

import (
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"runtime/debug"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
	httpsink "github.com/forebay-io/forebay/sinks/http"
	logsink "github.com/forebay-io/forebay/sinks/log"
	"github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/lane"
	"github.com/forebay-io/forebay/stream/sink"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// buildVersion is the version that the binary was built as; empty for one that was built from a work tree without any.
func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return ""
}

// sinkParts is what a destination's sink is made of.
type sinkParts struct {
	file        *config.Config
	team, name  string
	destination *config.Destination
	log         *slog.Logger
}

// newSink builds the sink of a destination without connecting.
func newSink(p sinkParts) (sink.Sink, error) {
	switch p.destination.Type {
	case "exec":
		return newExec(p)
	case "kafka":
		return newKafka(p)
	case "postgres":
		return newPostgres(p)
	case "mcp":
		return newMCP(p)
	case "log":
		return logsink.New(logsink.Config{Logger: p.log})
	case "http":
		return newHTTP(p)
	case "github":
		return newGitHub(p)
	case "pagerduty":
		return newPagerDuty(p)
	case "slack":
		return newSlack(p)
	}
	return nil, fmt.Errorf("type %q is not built yet in this version", p.destination.Type)
}

func newHTTP(p sinkParts) (sink.Sink, error) {
	d := p.destination
	params, allowed, err := p.apiParts(httpsink.Params())
	if err != nil {
		return nil, err
	}
	cfg := httpsink.Config{URL: d.URL, Timeout: d.Timeout.Std(), Version: buildVersion(), Headers: d.Headers, AllowNetworks: allowed, Params: params}
	if !d.Secret.IsZero() {
		cfg.Secrets = []schemas.Secret{d.Secret}
	}
	return httpsink.New(cfg)
}

// networks reads the allow_networks of a destination.
func networks(texts []string) ([]netip.Prefix, error) {
	list := make([]netip.Prefix, 0, len(texts))
	for _, text := range texts {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("allow_networks: %w", err)
		}
		list = append(list, network)
	}
	return list, nil
}

// destinations builds the sinks of all teams with what their subscriptions share of them, by "<team>/<destination>".
func destinations(c *config.Config, log *slog.Logger, metrics prometheus.Registerer) (map[string]lane.Destination, error) {
	all := map[string]lane.Destination{}
	for _, team := range sortedKeys(c.Teams) {
		for _, name := range sortedKeys(c.Teams[team].Destinations) {
			d := c.Teams[team].Destinations[name]
			full := team + "/" + name
			made, err := newSink(sinkParts{c, team, name, d, log.With("destination", full)})
			if err != nil {
				return nil, fmt.Errorf("destination %s: %w", full, err)
			}
			shared, err := destination.New(destination.Config{Name: full, Policy: policyOf(d, made), Logger: log, Registerer: metrics})
			if err != nil {
				return nil, err
			}
			all[full] = lane.Destination{Sink: made, Shared: shared, Timeout: d.Timeout.Std(), Long: longPolicy(d.Long), Retry: lane.RetryPolicy{
				Attempts: d.Retry.Attempts, Within: d.Retry.Within.Std(),
				Min: d.Retry.Min.Std(), Max: max(d.Retry.Max.Std(), time.Millisecond),
			}}
		}
	}
	return all, nil
}
