package provider

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"github.com/forebay-io/forebay/schemas/expression"
	"github.com/forebay-io/forebay/schemas/scan"
)

// inputs has the values of expressions' variables, made when the first expression reads them. It is the delivery's [cel.Activation].
type inputs struct {
	d      *delivery
	parsed bool // body and bad are set
	body   any
	bad    *Unusable
	header map[string]string
	form   map[string]any
}

// evaluate runs the expression r over the delivery. Its value is used like that of a pointer: null counts as missing. If it reads body,
// the whole body must be as strict as a pointer requires of the values on its way.
func (d *delivery) evaluate(r ref) (scan.Kind, string, *Unusable) {
	if d.inputs == nil {
		d.inputs = &inputs{d: d}
	}
	if r.cel.body {
		if bad := d.inputs.parse(); bad != nil {
			return 0, "", bad
		}
	}
	out, err := r.cel.Eval(d.inputs)
	if err != nil {
		return 0, "", failed(r.text, err)
	}
	kind, text := scan.String, ""
	switch v := out.(type) {
	case types.Null:
		return scan.Null, "", nil
	case types.String:
		text = string(v)
	case types.Int:
		kind, text = scan.Number, strconv.FormatInt(int64(v), 10)
	case types.Uint:
		kind, text = scan.Number, strconv.FormatUint(uint64(v), 10)
	case types.Bool:
		kind, text = scan.Bool, strconv.FormatBool(bool(v))
	case types.Timestamp:
		text = v.UTC().Format(time.RFC3339Nano)
	}
	switch {
	case !r.cel.Takes(out):
		return 0, "", unusable(WrongType, "%s is of type %s, not one of %s", r.text, out.Type().TypeName(), r.cel.TypeNames())
	case len(text) > maxResult:
		return 0, "", unusable(TooLong, "%s is longer than %d bytes", r.text, maxResult)
	}
	return kind, text, nil
}

// failed returns the Unusable for an expression without a value.
func failed(text string, err error) *Unusable {
	reason := ExpressionFailed
	if f, ok := errors.AsType[*expression.Failure](err); ok && f.Cost {
		reason = ExpressionCost
	}
	return unusable(reason, "%s %v", text, err)
}

// ResolveName implements [cel.Activation].
func (in *inputs) ResolveName(name string) (any, bool) {
	switch name {
	case "body":
		return in.body, true
	case "header":
		return in.headers(), true
	case "form":
		return in.fields(), true
	}
	return nil, false
}

// Parent implements [cel.Activation].
func (in *inputs) Parent() cel.Activation { return nil }

// parse reads the JSON text; null if there is none (a form without one).
func (in *inputs) parse() *Unusable {
	if in.parsed {
		return in.bad
	}
	in.parsed = true
	if in.d.text == nil {
		return nil
	}
	body, err := expression.JSON(in.d.text)
	if err != nil {
		in.bad = scanReason(err)
	}
	in.body = body
	return in.bad
}

// headers returns the headers without secrets: an expression's value may become an id, which is shown.
func (in *inputs) headers() map[string]string {
	if in.header != nil {
		return in.header
	}
	in.header = make(map[string]string, len(in.d.req.Header))
	for name, values := range in.d.req.Header {
		name = http.CanonicalHeaderKey(name)
		if len(values) > 0 && !secretHeader(name) && !slices.Contains(in.d.src.secret, name) {
			in.header[strings.ToLower(name)] = values[0]
		}
	}
	return in.header
}

// fields returns the form's fields. Reading one that appears more than once is an error, as it is with form:<field>.
func (in *inputs) fields() map[string]any {
	if in.form != nil {
		return in.form
	}
	in.form = make(map[string]any, len(in.d.form))
	for name, values := range in.d.form {
		if len(values) == 1 {
			in.form[name] = values[0]
		} else {
			in.form[name] = types.NewErr("a form field appears more than once")
		}
	}
	return in.form
}
