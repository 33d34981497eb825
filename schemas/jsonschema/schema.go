package jsonschema

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"

	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/forebay-io/forebay/schemas/scan"
)

// Draft is the one dialect that is taken; it may be left out.
const Draft = "https://json-schema.org/draft/2020-12/schema"

// Bounds of a schema. They are far above what describes an event, and keep what a team writes from holding up the intake of others.
const (
	maxText    = 128 << 10 // bytes
	maxPlaces  = 20_000    // values in the text
	maxID      = 512       // characters of $id
	maxPattern = 1_000     // instructions of a compiled pattern
)

// typesKey is the keyword with the types that a schema of the catalogue is for.
const typesKey = "x-types"

// Schema is a compiled schema. Safe for concurrent use.
type Schema struct {
	// ID is $id where that is an absolute URI, else empty. It is the dataschema of events that fit.
	ID string
	// Title is the schema's own, and Types the globs of the event types that it is for; both may be empty.
	Title string
	Types []string

	text     []byte
	tree     map[string]any
	compiled *validator.Schema
	cost     cost
}

// Text returns the schema as it was written. It must not be changed.
func (s *Schema) Text() []byte { return s.text }

// Parse reads a schema. The error says where in the text something is wrong, and what to do.
func Parse(text []byte) (*Schema, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("is of %d bytes, and a schema has at most %d: leave out what nobody reads (descriptions, examples)", len(text), maxText)
	}
	tree, err := scan.Tree(text, maxPlaces, number)
	if err != nil {
		return nil, fmt.Errorf("is no JSON: %w", err)
	}
	object, ok := tree.(map[string]any)
	if !ok {
		return nil, errors.New(`is no schema: a schema is a JSON object, such as {"type": "object", "required": ["id"]}`)
	}
	if draft, there := object["$schema"]; there && draft != Draft && draft != Draft+"#" {
		return nil, fmt.Errorf("at /$schema: only %s is understood; write that, or leave $schema out", Draft)
	}
	s := &Schema{text: text, tree: object, ID: idOf(object)}
	s.Title, _ = object["title"].(string)
	types, _ := object[typesKey].([]any)
	for _, t := range types {
		if glob, ok := t.(string); ok {
			s.Types = append(s.Types, glob)
		}
	}
	if s.compiled, err = compile(object); err != nil {
		return nil, err
	}
	if s.cost, err = costOf(s.compiled); err != nil {
		return nil, err
	}
	return s, nil
}

// idOf returns the schema's $id if that can be an attribute of an event.
func idOf(schema map[string]any) string {
	id, _ := schema["$id"].(string)
	u, err := url.Parse(id)
	if err != nil || !u.IsAbs() || len(id) > maxID || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return id
}

// number returns a JSON number as the validator takes it. An exact one of unbounded size (json.Number) would let a text of some bytes,
// 1e1000000, take milliseconds.
func number(text []byte) any {
	if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		return n
	}
	f, _ := strconv.ParseFloat(string(text), 64) // out of range: infinite
	return min(max(f, -largest), largest)
}

const largest = 0x1p1023 * (1 + (1 - 0x1p-52)) // math.MaxFloat64

// base is where relative references begin. Nothing is there, and nothing is fetched.
const base = "https://schema.invalid/schema"

func compile(tree map[string]any) (*validator.Schema, error) {
	c := validator.NewCompiler()
	c.DefaultDraft(validator.Draft2020)
	c.UseLoader(nowhere{})
	c.UseRegexpEngine(pattern)
	if err := c.AddResource(base, tree); err != nil {
		return nil, fmt.Errorf("is no schema: %w", err)
	}
	compiled, err := c.Compile(base)
	if err != nil {
		return nil, compileProblem(err)
	}
	return compiled, nil
}

// nowhere refuses to load anything.
type nowhere struct{}

var errElsewhere = errors.New("is elsewhere, and nothing is fetched: copy it into $defs, and refer to it with #/$defs/NAME")

// Load implements [validator.URLLoader].
func (nowhere) Load(string) (any, error) { return nil, errElsewhere }

// compileProblem returns an error that says in plain words why a text is no schema.
func compileProblem(err error) error {
	var (
		remote  *validator.LoadURLError
		invalid *validator.SchemaValidationError
		regex   *validator.InvalidRegexError
		found   *validator.ValidationError
		pointer *validator.JSONPointerNotFoundError
		anchor  *validator.AnchorNotFoundError
	)
	switch {
	case errors.As(err, &remote): // it does not unwrap
		return fmt.Errorf("$ref: %s %w", shown(strings.TrimPrefix(remote.URL, "https://schema.invalid/")), errElsewhere)
	case errors.As(err, &invalid) && errors.As(invalid.Err, &found):
		return fmt.Errorf("is no JSON Schema of 2020-12: %s", cmp.Or(wrongWord(found), problemOf(found)))
	case errors.As(err, &regex):
		return fmt.Errorf("the pattern %s is none: %w", shown(regex.Regex), regex.Err)
	case errors.As(err, &pointer):
		return fmt.Errorf("$ref: nothing is at %s", shown(fragment(pointer.URL)))
	case errors.As(err, &anchor):
		return fmt.Errorf("$ref: there is no anchor %s", shown(fragment(anchor.Reference)))
	}
	return fmt.Errorf("is no schema: %s", shown(strings.ReplaceAll(err.Error(), base, "")))
}

func fragment(u string) string {
	if i := strings.IndexByte(u, '#'); i >= 0 {
		return u[i:]
	}
	return u
}

// sized is a pattern and how large it is: a match takes as many steps as the text has bytes and the pattern instructions.
type sized struct {
	*regexp.Regexp
	instructions int
}

// pattern is the validator's engine for regular expressions.
func pattern(text string) (validator.Regexp, error) {
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("%w; patterns are regular expressions as RE2 has them, without look-around and back references", err)
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	if len(program.Inst) > maxPattern {
		return nil, fmt.Errorf("it is too large: %d instructions when compiled, of %d; shorten its repetitions", len(program.Inst), maxPattern)
	}
	return &sized{compiled, len(program.Inst)}, nil
}
