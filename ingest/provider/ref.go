package provider

import (
	"fmt"
	"net/http"
	"strings"

	"cel.dev/cel-go/cel"

	"github.com/forebay-io/forebay/schemas/scan"
)

type refKind uint8

const (
	refPointer refKind = iota
	refHeader
	refForm
	refBody // sha256:body
	refLiteral
	refThere // the name, if there is something at the pointer
	refExpression
	refCaller // the name of who has proven itself
)

// callerName is how presets name that.
const callerName = "caller:name"

// ref is a compiled `from`.
type ref struct {
	kind refKind
	name string // header (canonical), field, literal
	slot int    // of the pointer in the source's set
	cel  *compiled
	text string // as it was written, cut short
	// prefix stands before what is read, which ends before the first end.
	prefix, end string
}

// value is one or several refs, the first of which that is there counts.
type value struct {
	refs     []ref
	optional bool
	text     string // as it was written, cut short
}

// refs collects the pointers of a source while its mapping is compiled.
type refs struct {
	pointers []string
	slots    map[string]int
	strict   []bool // by slot: something that decides reads it
	loose    bool   // what is compiled now decides nothing
	forms    bool   // some value comes from a form field
}

// one compiles a user's `from`. takes are the result types that an expression may have here.
func (c *refs) one(from string, takes []*cel.Type) (r ref, err error) {
	r.text = from
	switch {
	case from == "":
		return r, fmt.Errorf("is empty: use a JSON Pointer such as /id, header:<name>, form:<field>, sha256:body or cel:<expression>")
	case strings.HasPrefix(from, celPrefix):
		if r.cel, err = express(strings.TrimPrefix(from, celPrefix), takes); err != nil {
			return r, err
		}
		r.kind, r.text, c.forms = refExpression, brief(from), c.forms || r.cel.form
	case from == "sha256:body":
		r.kind = refBody
	case strings.HasPrefix(from, "/"):
		if _, err := scan.Compile(from); err != nil {
			return r, err
		}
		r.slot = c.slot(from)
	case strings.HasPrefix(from, "header:") && len(from) > len("header:"):
		r.kind, r.name = refHeader, http.CanonicalHeaderKey(strings.TrimPrefix(from, "header:"))
	case strings.HasPrefix(from, "form:") && len(from) > len("form:"):
		r.kind, r.name, c.forms = refForm, strings.TrimPrefix(from, "form:"), true
	default:
		return r, fmt.Errorf("%q is not a JSON Pointer such as /id, header:<name>, form:<field>, sha256:body or cel:<expression>", from)
	}
	return r, nil
}

// slot returns the index of a pointer in c.pointers. It adds the pointer if it is not there.
func (c *refs) slot(pointer string) int {
	if i, ok := c.slots[pointer]; ok {
		c.strict[i] = c.strict[i] || !c.loose
		return i
	}
	if c.slots == nil {
		c.slots = map[string]int{}
	}
	i := len(c.pointers)
	c.slots[pointer] = i
	c.pointers, c.strict = append(c.pointers, pointer), append(c.strict, !c.loose)
	return i
}

// brief returns an expression shortened to one line, for messages.
func brief(text string) string {
	const most = 80
	if text = strings.Join(strings.Fields(text), " "); len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

// user compiles a value of a source's own mapping: one `from`, taken as it stands.
func (c *refs) user(from string, takes []*cel.Type) (value, error) {
	r, err := c.one(from, takes)
	return value{refs: []ref{r}, text: r.text}, err
}

// preset compiles a value of the catalogue, with its short forms.
func (c *refs) preset(from string) (value, error) {
	v := value{}
	v.text, v.optional = strings.CutSuffix(from, "?")
	for alternative := range strings.SplitSeq(v.text, "|") {
		prefix, from, ok := strings.Cut(strings.TrimSuffix(alternative, "}"), "{")
		if !ok {
			prefix, from = "", alternative
		}
		if literal, ok := strings.CutPrefix(alternative, "="); ok && prefix == "" {
			v.refs = append(v.refs, ref{kind: refLiteral, name: literal, text: alternative})
			continue
		}
		if from == callerName {
			v.refs = append(v.refs, ref{kind: refCaller, text: from})
			continue
		}
		from, end, _ := strings.Cut(from, "^")
		r, err := c.one(from, nil)
		if err != nil {
			return v, err
		}
		if name, ok := strings.CutPrefix(prefix, "="); ok {
			r.kind, r.name, prefix = refThere, name, ""
		}
		r.prefix, r.end = prefix, end
		v.refs = append(v.refs, r)
	}
	return v, nil
}
