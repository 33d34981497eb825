package app

import (
	mcpsink "github.com/forebay-io/forebay/sinks/mcp"
	"github.com/forebay-io/forebay/stream/sink"
)

func newMCP(p sinkParts) (sink.Sink, error) {
	d := p.destination
	params, allowed, err := p.apiParts(mcpsink.Params())
	if err != nil {
		return nil, err
	}
	return mcpsink.New(mcpsink.Config{
		URL: d.URL, Headers: d.Headers, Params: params, RetryToolErrors: d.ToolErrors == "retry", Unsafe: d.Idempotent != nil && !*d.Idempotent,
		AllowNetworks: allowed, Timeout: d.Timeout.Std(), Version: buildVersion(),
	})
}
