package app

import (
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
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

// newSink builds the sink of a destination without connecting; see paramsOf for current.
func newSink(file *config.Config, d config.NamedDestination, current func() *config.Config, log *slog.Logger) (sink.Sink, error) {
	if d.Keys == nil {
		return nil, fmt.Errorf("type %q is not built yet in this version", d.Type)
	}
	params, err := paramsOf(file, d, current)
	if err != nil {
		return nil, err
	}
	return d.Keys.Sink(spec.Destination{
		Common:      spec.Common{Params: params, AllowNetworks: d.AllowNetworks, Timeout: d.Timeout.Std(), Version: buildVersion(), Hidden: file.HiddenOf(d)},
		Concurrency: d.Concurrency, Dir: file.DirOf(d), Log: log, Cluster: KafkaOptions(file, config.RoleStream), MaxRecord: int(file.LargestBody()) + topics.HeaderRoom,
	})
}

// paramsOf returns what is sent to a destination; nil if its type has no parameters. An action that is open for it, and goes to another
// destination by now, is looked up in the current file; with nil, there is none.
func paramsOf(file *config.Config, d config.NamedDestination, current func() *config.Config) (*template.Set, error) {
	declared := d.Keys.Describe().Params
	if len(declared) == 0 {
		return nil, nil
	}
	params, err := template.NewSet(declared, d.Params.Values(), file.ActionParams(d))
	if err != nil {
		return nil, fmt.Errorf("params.%w", err) // the error begins with the parameter's name
	}
	if current != nil {
		params.Elsewhere = func(action string) (map[string]any, error) {
			of, name, _ := strings.Cut(action, "/")
			now, at := current(), subscriptionOf(of)
			for _, its := range subscriptionIn(now, at).Actions {
				to, _ := now.Destination(at.team, its.To)
				if its.Name == name && len(its.Params) > 0 && to.FullName() != d.FullName() {
					return d.Takes(its.Params)
				}
			}
			return nil, nil
		}
	}
	return params, nil
}

// makeDestination builds a destination: the sink, and the policy of its attempts. Shared is missing.
func makeDestination(c *config.Config, d config.NamedDestination, current func() *config.Config, log *slog.Logger) (lane.DestinationConfig, error) {
	made, err := newSink(c, d, current, log.With("destination", d.FullName()))
	if err != nil {
		return lane.DestinationConfig{}, fmt.Errorf("destination %s: %w", d.FullName(), err)
	}
	return lane.DestinationConfig{Sink: made, Timeout: d.Timeout.Std(), Settle: d.Keys.Describe().Settle, Long: longPolicy(d.Long), Retry: sink.RetryPolicy{
		Attempts: d.Retry.Attempts, Within: d.Retry.Within.Std(),
		Min: d.Retry.Min.Std(), Max: max(d.Retry.Max.Std(), time.Millisecond),
	}}, nil
}

// destinations builds all destinations, by their full names, with the limits that all subscriptions share.
func destinations(c *config.Config, current func() *config.Config, log *slog.Logger, metrics prometheus.Registerer) (map[string]lane.DestinationConfig, error) {
	all := map[string]lane.DestinationConfig{}
	for _, d := range c.AllDestinations() {
		made, err := makeDestination(c, d, current, log)
		if err != nil {
			return nil, err
		}
		if made.Shared, err = destination.New(destination.Config{Name: d.FullName(), Policy: policyOf(d, made.Sink), Logger: log, Registerer: metrics}); err != nil {
			return nil, err
		}
		all[d.FullName()] = made
	}
	return all, nil
}
