package config

import (
	"maps"
	"slices"

	httpsink "github.com/forebay-io/forebay/sinks/http"
	kafkasink "github.com/forebay-io/forebay/sinks/kafka"
	mcpsink "github.com/forebay-io/forebay/sinks/mcp"
	"github.com/forebay-io/forebay/sinks/pagerduty"
	postgressink "github.com/forebay-io/forebay/sinks/postgres"
	"github.com/forebay-io/forebay/sinks/slack"
	"github.com/forebay-io/forebay/sinks/template"
)

// sinkType is what a destination of one type has beyond the keys that all of them have.
type sinkType struct {
	keys []string
	// check looks at what only the type knows of; nil: nothing.
	check func(ck *checker, path string, d *Destination)
	// params declares the parameters of a destination, given there or with its actions; nil: it has none. The key
	// params is then one of keys.
	params func(d *Destination) []template.Param
}

// sinkTypes are the types that a destination may have today, each with its own file.
var sinkTypes = map[string]sinkType{
	"exec": {keys: []string{"command", "env", "idempotent"}, check: (*checker).execSink},
	"http": {keys: []string{"url", "secret", "headers", "allow_networks", "params", "long"}, check: (*checker).longSink, params: func(*Destination) []template.Param { return httpsink.Params() }},
	"kafka": {
		keys: []string{"topic", "idempotent", "params"}, check: (*checker).kafkaSink,
		params: func(*Destination) []template.Param { return kafkasink.Params() },
	},
	"log": {},
	"mcp": {
		keys:  []string{"url", "headers", "tool_errors", "idempotent", "allow_networks", "params"},
		check: (*checker).httpSink, params: func(*Destination) []template.Param { return mcpsink.Params() },
	},
	"postgres": {
		keys:  []string{"database", "statement", "key_table", "key_retention", "allow_networks", "params"},
		check: (*checker).postgresSink, params: func(*Destination) []template.Param { return postgressink.Params() },
	},

	"github":    {keys: append([]string{"do"}, apiKeys...), check: (*checker).githubSink, params: githubParams},
	"pagerduty": {keys: []string{"routing_key", "base_url", "allow_networks", "params"}, check: (*checker).pagerdutySink, params: func(*Destination) []template.Param { return pagerduty.Params() }},
	"slack":     {keys: apiKeys, check: (*checker).apiSink, params: func(*Destination) []template.Param { return slack.Params() }},
}

// sinkKeys are the keys that not every type has, sorted.
func sinkKeys() []string {
	all := map[string]bool{}
	for _, t := range sinkTypes {
		for _, key := range t.keys {
			all[key] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func (ck *checker) httpSink(path string, d *Destination) {
	allowed := ck.networks(path+".allow_networks", d.AllowNetworks)
	if !ck.skip(path + ".url") {
		ck.destinationURL(path+".url", d.URL, allowed, len(d.AllowNetworks) > 0)
	}
}
