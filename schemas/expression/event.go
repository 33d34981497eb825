package expression

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	celref "cel.dev/cel-go/common/types/ref"

	"github.com/forebay-io/forebay/schemas"
)

// Variables are what match, when, the rules of policies and second keys can name of an event and of the action at hand, see [Input]:
//
//	event.id, event.type, event.source, event.subject, event.deliveryid   texts
//	event.time                    the provider's time, else the intake's
//	body                          the JSON body, read where it is named (see [Lazy]); a form's fields; null if it is empty
//	headers                       the request headers that were kept, by name in lower case
//	entity.key, entity.version    the version is text that sorts; empty if there is none
//	sender.id, sender.login, sender.kind, sender.trust
//	action.name, action.to        empty where no action is at hand
//	chain.depth, chain.agents     what other agents have called one another before the event
var Variables = []cel.EnvOption{
	cel.Variable("event.id", cel.StringType), cel.Variable("event.type", cel.StringType), cel.Variable("event.source", cel.StringType),
	cel.Variable("event.subject", cel.StringType), cel.Variable("event.deliveryid", cel.StringType), cel.Variable("event.time", cel.TimestampType),
	cel.Variable("body", cel.DynType), cel.Variable("headers", cel.MapType(cel.StringType, cel.StringType)),
	cel.Variable("entity.key", cel.StringType), cel.Variable("entity.version", cel.StringType),
	cel.Variable("sender.id", cel.StringType), cel.Variable("sender.login", cel.StringType), cel.Variable("sender.kind", cel.StringType), cel.Variable("sender.trust", cel.StringType),
	cel.Variable("action.name", cel.StringType), cel.Variable("action.to", cel.StringType),
	cel.Variable("chain.depth", cel.IntType), cel.Variable("chain.agents", cel.ListType(cel.StringType)),
}

// Events is the environment of [Variables].
var Events = Over(Variables...)

// Input gives an event's values to expressions that were compiled in [Events]. It is their [cel.Activation]. The body is read when the first
// expression names it, and once for all that share the Input. It is for one goroutine.
type Input struct {
	Event  *schemas.Event
	Action string // its name; empty: none is at hand
	To     string // the action's destination, as the file names it

	paths *paths // what is looked for when the body is read; nil: nothing yet

	read bool // body and bad are set
	body celref.Val
	bad  error
}

// Bad returns why the body cannot be read at all; nil if it can, or no expression has named it. It quotes nothing of the body.
func (in *Input) Bad() error { return in.bad }

// names says before an evaluation what it names in the body.
func (in *Input) names(p *paths) {
	if !in.read {
		in.paths = p
	}
}

// True evaluates an expression that was compiled to give a bool. The error is a *[Failure], or says what is wrong with the body, and quotes
// nothing of what it has read.
func (in *Input) True(x *Expression) (bool, error) {
	v, err := x.Eval(in)
	if err != nil && in.bad != nil && x.Reads("body") {
		return false, in.bad
	}
	if err != nil {
		return false, err
	}
	b, ok := v.(types.Bool)
	if !ok {
		return false, &Failure{}
	}
	return bool(b), nil
}

// Condition compiles an expression of [Events] that gives a bool. The text of an error follows the name of a configuration key.
func Condition(text string) (*Expression, error) {
	return Events.Compile(text, []*cel.Type{cel.BoolType})
}

// ResolveName implements [cel.Activation].
func (in *Input) ResolveName(name string) (any, bool) {
	e := in.Event
	switch name {
	case "body":
		if in.readBody(); in.bad != nil {
			return types.WrapErr(in.bad), true
		}
		if e, bad := in.body.(*types.Err); bad { // whoever is given it writes into it
			return types.WrapErr(e.Unwrap()), true
		}
		return in.body, true
	case "headers":
		return headers(e), true
	case "event.id":
		return types.String(e.ID), true
	case "event.type":
		return types.String(e.Type), true
	case "event.source":
		return types.String(e.Source), true
	case "event.subject", "entity.key":
		return types.String(e.Entity), true
	case "event.deliveryid":
		return types.String(e.DeliveryID), true
	case "event.time":
		return e.Time, true
	case "entity.version":
		return types.String(e.Version.Sortable()), true
	case "sender.id":
		return types.String(e.Sender.ID), true
	case "sender.login":
		return types.String(e.Sender.Login), true
	case "sender.kind":
		return types.String(e.Sender.Kind), true
	case "sender.trust":
		return types.String(e.Sender.Trust), true
	case "action.name":
		return types.String(in.Action), true
	case "action.to":
		return types.String(in.To), true
	case "chain.depth":
		return types.Int(e.Chain.Depth), true
	case "chain.agents":
		return e.Chain.Agents, true
	}
	return nil, false
}

// Parent implements [cel.Activation].
func (in *Input) Parent() cel.Activation { return nil }

// headers returns the headers that were kept, the first of each name.
func headers(e *schemas.Event) map[string]string {
	all := make(map[string]string, len(e.Headers))
	for _, h := range e.Headers {
		if _, there := all[h.Name]; !there {
			all[h.Name] = h.Value
		}
	}
	return all
}

// maxUnpacked is the largest max_body that a source can have.
const maxUnpacked = 100 << 20

// readBody reads the body, once.
func (in *Input) readBody() {
	if in.read {
		return
	}
	in.read, in.body = true, types.NullValue
	if len(in.Event.Data) == 0 {
		return
	}
	text, err := in.Event.Text(maxUnpacked)
	if err != nil {
		in.bad = fmt.Errorf("cannot be made: the event's body cannot be unpacked: %w", err)
		return
	}
	if strings.HasPrefix(strings.ToLower(in.Event.DataContentType), "application/x-www-form-urlencoded") {
		in.body, in.bad = form(text)
		return
	}
	if in.body, err = in.paths.read(text); err != nil {
		in.bad = fmt.Errorf("cannot be made: the event's body cannot be read as JSON: %w", err)
	}
}

// form reads a form: its fields as texts, and as a list of texts where a field comes more than once.
func form(data []byte) (celref.Val, error) {
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
	return types.DefaultTypeAdapter.NativeToValue(body), nil
}
