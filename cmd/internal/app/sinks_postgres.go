package app

import (
	postgressink "github.com/forebay-io/forebay/sinks/postgres"
	"github.com/forebay-io/forebay/stream/sink"
)

func newPostgres(p sinkParts) (sink.Sink, error) {
	d := p.destination
	params, allowed, err := p.apiParts(postgressink.Params())
	if err != nil {
		return nil, err
	}
	if d.Database.IsZero() {
		return postgressink.NewJoined(d.Statement, params)
	}
	return postgressink.New(postgressink.Config{
		Database: d.Database, Statement: d.Statement, Params: params, KeyTable: d.KeyTable, KeyRetention: d.KeyRetention.Std(), AllowNetworks: allowed,
		MaxConns: int32(d.Concurrency),
	})
}
