package app

import (
	"errors"
	"fmt"

	"github.com/forebay-io/forebay/sinks/slack"
	"github.com/forebay-io/forebay/sinks/template"
	"github.com/forebay-io/forebay/stream"
)

// params compiles the parameters of a destination and of the actions that go to it.
func (p sinkParts) params(declared []template.Param) (*template.Set, error) {
	set, err := template.NewSet(declared, p.destination.Params.Values(), p.file.ActionParams(p.team, p.name))
	if _, ok := errors.AsType[*template.KeyError](err); ok {
		return nil, fmt.Errorf("params.%w", err)
	}
	return set, err
}

func newSlack(p sinkParts) (stream.Sink, error) {
	d := p.destination
	params, err := p.params(slack.Params())
	if err != nil {
		return nil, err
	}
	allowed, err := networks(d.AllowNetworks)
	if err != nil {
		return nil, err
	}
	return slack.New(slack.Config{
		Token: d.Token, BaseURL: d.BaseURL, Params: params, AllowNetworks: allowed, Timeout: d.Timeout.Std(), Version: buildVersion(),
	})
}
