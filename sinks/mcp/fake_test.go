package mcpsink

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/forebay-io/forebay/stream/sink/sinktest"
)

// fake is a real server, of the official SDK, with tools that check the key.
type fake struct {
	http.Handler
	server *mcp.Server

	mu      sync.Mutex
	calls   []*mcp.CallToolParamsRaw
	headers []http.Header
	seen    map[string]bool
	done    int
}

var _ sinktest.Fake = (*fake)(nil)

// newFake serves over the newest protocol, or, with sessions, over the one before.
func newFake(o mcp.StreamableHTTPOptions) *fake {
	f := &fake{seen: map[string]bool{}}
	server := mcp.NewServer(&mcp.Implementation{Name: "fake", Version: "1"}, nil)
	f.server = server
	object := json.RawMessage(`{"type":"object"}`)
	for name, do := range map[string]func(*mcp.CallToolRequest) (*mcp.CallToolResult, error){
		"triage": func(*mcp.CallToolRequest) (*mcp.CallToolResult, error) { return text("filed"), nil },
		"paid": func(*mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			r := text("filed")
			r.Meta = mcp.Meta{"forebay/cost": 0.25}
			return r, nil
		},
		"overpaid": func(*mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			r := text("filed")
			r.Meta = mcp.Meta{"forebay/cost": "-3"}
			r.IsError = true
			return r, nil
		},
		"fails": func(*mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			r := text("no such project")
			r.IsError = true
			return r, nil
		},
		"broken": func(*mcp.CallToolRequest) (*mcp.CallToolResult, error) { return nil, errors.New("out of disk") },
		"picky": func(*mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "no project given"}
		},
		"crowded": func(*mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return nil, &jsonrpc.Error{Code: -32050, Message: "queue is full"}
		},
		"asks": func(*mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"who": &mcp.ElicitParams{Message: "who are you?"}}}, nil
		},
	} {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: object}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			f.note(r)
			return do(r)
		})
	}
	f.Handler = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &o)
	return f
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

// note does what the tool is for, once per key.
func (f *fake) note(r *mcp.CallToolRequest) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, r.Params)
	if r.Extra != nil {
		f.headers = append(f.headers, r.Extra.Header)
	}
	key, _ := r.Params.Meta["forebay/action_id"].(string)
	if key == "" || f.seen[key] {
		return
	}
	f.seen[key] = true
	if key == string(sinktest.Action(1).ID) {
		f.done++
	}
}

// end ends the sessions that nobody has.
func (f *fake) end() {
	for s := range f.server.Sessions() {
		_ = s.Close()
	}
}

// Done is how often the first action took effect.
func (f *fake) Done() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.done
}
