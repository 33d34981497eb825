package config

import (
	"github.com/forebay-io/forebay/sinks/github"
	"github.com/forebay-io/forebay/sinks/template"
)

// apiKeys are the keys of destinations that are an API with a token.
var apiKeys = []string{"token", "base_url", "allow_networks", "params"}

// apiSink checks a destination that is an API.
func (ck *checker) apiSink(path string, d *Destination) {
	if d.Token.IsZero() && !ck.skip(path+".token") {
		ck.problem(path, "token is missing: what the API knows this destination by")
	}
	ck.apiURL(path, d)
}

// apiURL checks where an API is. Nothing written is the provider's own.
func (ck *checker) apiURL(path string, d *Destination) {
	allowed := ck.networks(path+".allow_networks", d.AllowNetworks)
	if !ck.written(path+".base_url") || ck.skip(path+".base_url") {
		return
	}
	ck.destinationURL(path+".base_url", d.BaseURL, allowed, len(d.AllowNetworks) > 0)
}

func (ck *checker) githubSink(path string, d *Destination) {
	if d.Do == "" && !ck.skip(path+".do") {
		ck.problem(path, "do is missing: issue, comment, labels or dispatch")
	}
	ck.apiSink(path, d)
}

// githubParams are those of what the destination does; nil where that is not known, and said so.
func githubParams(d *Destination) []template.Param { return github.Params(github.Do(d.Do)) }

func (ck *checker) pagerdutySink(path string, d *Destination) {
	if d.RoutingKey.IsZero() && !ck.skip(path+".routing_key") {
		ck.problem(path, "routing_key is missing: the integration key of the service")
	}
	ck.apiURL(path, d)
}
