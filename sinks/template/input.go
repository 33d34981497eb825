package template

import (
	"net/url"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/expression"
	"github.com/forebay-io/forebay/stream/sink"
)

// environment is what expressions can name; see the package comment.
var environment = expression.Over(slices.Concat(expression.Variables, []cel.EnvOption{
	cel.Variable("event.delivery", cel.StringType), cel.Variable("event.entity", cel.StringType), cel.Variable("event.parts", cel.ListType(cel.StringType)),
	cel.Variable("event.version", cel.StringType), cel.Variable("event.title", cel.StringType), cel.Variable("event.late", cel.BoolType),
	cel.Variable("event.deleted", cel.BoolType), cel.Variable("event.reason", cel.StringType),
	cel.Variable("action.id", cel.StringType), cel.Variable("action.attempt", cel.IntType),
})...)

// input is what expressions read of an action, made when the first one asks. It is their [cel.Activation].
type input struct {
	expression.Input
	a    sink.Action
	left int // of maxAll
}

// newInput returns the input of an action.
func newInput(a sink.Action) *input {
	return &input{Input: expression.Input{Event: a.Event, Action: a.Name, To: a.To()}, a: a, left: maxAll}
}

// ResolveName implements [cel.Activation].
func (in *input) ResolveName(name string) (any, bool) {
	e := in.a.Event
	switch name {
	case "event.delivery":
		return e.DeliveryID, true
	case "event.entity":
		return string(e.Entity), true
	case "event.parts":
		return parts(e.Entity), true
	case "event.version":
		return e.Version.Sortable(), true
	case "event.title":
		return e.Title, true
	case "event.late":
		return in.a.Late, true
	case "event.deleted":
		return e.Deleted, true
	case "event.reason":
		return in.a.Reason, true
	case "action.id":
		return string(in.a.ID), true
	case "action.attempt":
		return int64(in.a.Attempt), true
	}
	return in.Input.ResolveName(name)
}

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
