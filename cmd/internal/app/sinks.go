package app

import (
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/topics"
	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/sinks/template"
	"github.com/forebay-io/forebay/stream/destination"
	"github.com/forebay-io/forebay/stream/lane"
	"github.com/forebay-io/forebay/stream/sink"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// buildVersion returns the version of the binary; empty if it was built from a work tree without one.
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
	d := p.destination
	if d.Keys == nil {
		return nil, fmt.Errorf("type %q is not built yet in this version", d.Type)
	}
	var params *template.Set
	if declared := d.Keys.Describe().Params; len(declared) > 0 {
		var err error
		if params, err = template.NewSet(declared, d.Params.Values(), p.file.ActionParams(p.team, p.name)); err != nil {
			return nil, fmt.Errorf("params.%w", err) // the error begins with the parameter's name
		}
	}
	return d.Keys.Sink(spec.Destination{
		Timeout: d.Timeout.Std(), Concurrency: d.Concurrency, AllowNetworks: d.AllowNetworks, Params: params, Version: buildVersion(),
		Hidden: p.file.HiddenOf(p.team, p.name), Log: p.log, Cluster: KafkaOptions(p.file), MaxRecord: int(p.file.LargestBody()) + topics.HeaderRoom,
	})
}

// destinations builds the destinations of all teams, by "<team>/<destination>": for each the sink, the limits that all subscriptions
// share, and the policy of its attempts.
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
			all[full] = lane.Destination{Sink: made, Shared: shared, Timeout: d.Timeout.Std(), Settle: d.Keys.Describe().Settle, Long: longPolicy(d.Long), Retry: lane.RetryPolicy{
				Attempts: d.Retry.Attempts, Within: d.Retry.Within.Std(),
				Min: d.Retry.Min.Std(), Max: max(d.Retry.Max.Std(), time.Millisecond),
			}}
		}
	}
	return all, nil
}
