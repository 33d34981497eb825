package template

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"cel.dev/cel-go/cel"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/expression"
	"github.com/forebay-io/forebay/stream/sink"
)

// environment is what expressions can name; see the package comment.
var environment = expression.Over(
	cel.Variable("body", cel.DynType),
	cel.Variable("event.id", cel.StringType), cel.Variable("event.delivery", cel.StringType), cel.Variable("event.source", cel.StringType), cel.Variable("event.type", cel.StringType),
	cel.Variable("event.entity", cel.StringType), cel.Variable("event.parts", cel.ListType(cel.StringType)),
	cel.Variable("event.version", cel.StringType), cel.Variable("event.time", cel.TimestampType),
	cel.Variable("event.title", cel.StringType), cel.Variable("event.late", cel.BoolType), cel.Variable("event.deleted", cel.BoolType), cel.Variable("event.reason", cel.StringType),
	cel.Variable("sender.id", cel.StringType), cel.Variable("sender.login", cel.StringType), cel.Variable("sender.kind", cel.StringType),
	cel.Variable("action.id", cel.StringType), cel.Variable("action.name", cel.StringType), cel.Variable("action.attempt", cel.IntType),
)

// input is what expressions read of an action, made when the first one asks. It is their [cel.Activation].
type input struct {
	a      sink.Action
	left   int  // of maxAll
	parsed bool // body and bad are set
	body   any
	bad    error
}

// parse reads the event's body. Its error quotes nothing of it.
func (in *input) parse() error {
	if in.parsed {
		return in.bad
	}
	in.parsed = true
	if len(in.a.Event.Data) == 0 {
		return nil
	}
	text, err := in.a.Event.Text(maxUnpacked)
	if err != nil {
		in.bad = fmt.Errorf("cannot be made: the event's body cannot be unpacked: %w", err)
		return in.bad
	}
	if strings.HasPrefix(strings.ToLower(in.a.Event.DataContentType), "application/x-www-form-urlencoded") {
		in.body, in.bad = form(text)
		return in.bad
	}
	if in.body, in.bad = expression.JSON(text); in.bad != nil {
		in.bad = fmt.Errorf("cannot be made: the event's body cannot be read as JSON: %w", in.bad)
	}
	return in.bad
}

// maxUnpacked is the largest max_body that a source can have.
const maxUnpacked = 100 << 20

// form reads a form: its fields as texts, and as a list of texts where a field comes more than once.
func form(data []byte) (any, error) {
	fields, err := url.ParseQuery(string(data))
	if err != nil {
		return nil, errors.New("cannot be made: the event's body is said to be a form, and is none")
	}
	body := make(map[string]any, len(fields))
	for name, values := range fields {
		if body[name] = values; len(values) == 1 {
			body[name] = values[0]
		}
	}
	return body, nil
}

// ResolveName implements [cel.Activation]. Whoever evaluates an expression that names body has called parse, and does not where that failed.
func (in *input) ResolveName(name string) (any, bool) {
	e := in.a.Event
	switch name {
	case "body":
		return in.body, true
	case "event.id":
		return e.ID, true
	case "event.delivery":
		return e.DeliveryID, true
	case "event.source":
		return e.Source, true
	case "event.type":
		return e.Type, true
	case "event.entity":
		return string(e.Entity), true
	case "event.parts":
		return parts(e.Entity), true
	case "event.version":
		return e.Version.Sortable(), true
	case "event.time":
		return e.Time, true
	case "event.title":
		return e.Title, true
	case "sender.id":
		return e.Sender.ID, true
	case "sender.login":
		return e.Sender.Login, true
	case "sender.kind":
		return string(e.Sender.Kind), true
	case "event.late":
		return in.a.Late, true
	case "event.deleted":
		return e.Deleted, true
	case "event.reason":
		return in.a.Reason, true
	case "action.id":
		return string(in.a.ID), true
	case "action.name":
		return in.a.Name, true
	case "action.attempt":
		return int64(in.a.Attempt), true
	}
	return nil, false
}

// Parent implements [cel.Activation].
func (in *input) Parent() cel.Activation { return nil }

// parts returns the values of an entity as its mapping had them. What is not encoded as keys are stays as it is.
func parts(key schemas.EntityKey) []string {
	list := strings.Split(string(key), "/")
	for i, p := range list {
		if text, err := url.PathUnescape(p); err == nil {
			list[i] = text
		}
	}
	return list
}
