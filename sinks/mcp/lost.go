package mcpsink

import (
	"encoding/json"
	"net/http"
	"regexp"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/stream/sink"
)

// form is a form in which servers say that they have lost the session, by a restart or behind a balancer: then they have not looked at
// the request.
type form struct {
	spec.Answer
	code int
	// words are those of the answer; nil: the status says it, whatever the words.
	words *regexp.Regexp
}

const another = "the next attempt begins another session"

// forms are all of them, for requests of a session. The specification's is 404 (modelcontextprotocol.io/specification/2025-11-25/basic/transports,
// Session Management). The Python SDK until 2026 and servers after the TypeScript SDK's examples say 400 "Bad Request: No valid session
// ID provided", the TypeScript SDK's transport 400 "Bad Request: Server not initialized", mcp-go 400 "Invalid session ID", the Rust SDK until
// 2026 401 "Unauthorized: Session not found".
var forms = []form{
	{
		Answer: spec.Answer{What: "404 in a session, but for a JSON-RPC error about the call itself: `-32601`, `-32602`", Class: sink.ClassBusy, Then: another},
		code:   http.StatusNotFound,
	},
	{
		Answer: spec.Answer{
			What: "400 in a session that tells of it: `No valid session ID provided`, `Server not initialized` and the like", Class: sink.ClassBusy, Then: another,
		},
		code:  http.StatusBadRequest,
		words: sessionWords,
	},
	{
		Answer: spec.Answer{What: "401 `Session not found` in a session", Class: sink.ClassBusy, Then: another},
		code:   http.StatusUnauthorized,
		words:  regexp.MustCompile(`(?i)session (id )?not found`),
	},
}

var sessionWords = regexp.MustCompile(`(?i)(no valid|no active|no such|invalid|unknown|expired) (mcp[ -]?)?session|` +
	`session\b.{0,60}\b(not found|not exist|unknown|invalid|expired|terminated|closed)|server not initialized`)

// lost reports whether an answer to a request of a session says that the server has lost it. An error that comes of the call itself, such as
// that there is no such tool, says that there is a session, unless its words say otherwise: the Python SDK gives -32600 to its 404.
func lost(code int, answer []byte) bool {
	var m struct{ Error struct{ Code int64 } }
	_ = json.Unmarshal(answer, &m) // text is no JSON
	for _, f := range forms {
		if f.code != code {
			continue
		}
		switch m.Error.Code {
		case jsonrpc.CodeMethodNotFound, jsonrpc.CodeInvalidParams:
			return false
		case jsonrpc.CodeParseError, jsonrpc.CodeInvalidRequest:
			return sessionWords.Match(answer)
		}
		return f.words == nil || f.words.Match(answer)
	}
	return false
}
