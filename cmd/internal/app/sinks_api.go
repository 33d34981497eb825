package app

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/forebay-io/forebay/sinks/github"
	"github.com/forebay-io/forebay/sinks/pagerduty"
	"github.com/forebay-io/forebay/sinks/slack"
	"github.com/forebay-io/forebay/sinks/template"
	"github.com/forebay-io/forebay/stream/sink"
)

// apiParts are the parameters of a destination that is an API, with those of the actions that go to it, and the networks
// that it may be in.
func (p sinkParts) apiParts(declared []template.Param) (*template.Set, []netip.Prefix, error) {
	set, err := template.NewSet(declared, p.destination.Params.Values(), p.file.ActionParams(p.team, p.name))
	if _, ok := errors.AsType[*template.KeyError](err); ok {
		return nil, nil, fmt.Errorf("params.%w", err)
	}
	allowed, err := networks(p.destination.AllowNetworks)
	return set, allowed, err
}

func newGitHub(p sinkParts) (sink.Sink, error) {
	d := p.destination
	params, allowed, err := p.apiParts(github.Params(github.Do(d.Do)))
	if err != nil {
		return nil, err
	}
	return github.New(github.Config{
		Token: d.Token, Do: github.Do(d.Do), BaseURL: d.BaseURL, Params: params, AllowNetworks: allowed, Timeout: d.Timeout.Std(),
		Version: buildVersion(),
	})
}

func newPagerDuty(p sinkParts) (sink.Sink, error) {
	d := p.destination
	params, allowed, err := p.apiParts(pagerduty.Params())
	if err != nil {
		return nil, err
	}
	return pagerduty.New(pagerduty.Config{
		RoutingKey: d.RoutingKey, BaseURL: d.BaseURL, Params: params, AllowNetworks: allowed, Timeout: d.Timeout.Std(), Version: buildVersion(),
	})
}

func newSlack(p sinkParts) (sink.Sink, error) {
	d := p.destination
	params, allowed, err := p.apiParts(slack.Params())
	if err != nil {
		return nil, err
	}
	return slack.New(slack.Config{
		Token: d.Token, BaseURL: d.BaseURL, Params: params, AllowNetworks: allowed, Timeout: d.Timeout.Std(), Version: buildVersion(),
	})
}
