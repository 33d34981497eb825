package config

import (
	"fmt"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/stream/sink"
)

// decoder fills the structs of file.go from the YAML nodes of one file, by their declarations in shape.go. It does not stop at a
// problem. A path names a value: keys with dots between them, and an index as [0].
type decoder struct {
	file        string
	env         environment
	uses        func(path string) bool // Options.uses
	problems    Problems
	places      map[string]place // where each path was written
	unresolved  map[string]bool  // paths whose value was not resolved, or has a problem that is reported
	references  map[string]referring
	literal     map[literal]string // secrets that stand in the file itself, and where
	expressions map[string]int     // characters of those of each team, see maxExpressions
}

func (d *decoder) problem(n *yaml.Node, path, format string, args ...any) {
	d.problems = append(d.problems, Problem{File: d.file, Line: n.Line, Path: path, Message: fmt.Sprintf(format, args...)})
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

var (
	secretType      = reflect.TypeFor[schemas.Secret]()
	durationType    = reflect.TypeFor[Duration]()
	sizeType        = reflect.TypeFor[Size]()
	fractionType    = reflect.TypeFor[Fraction]()
	costType        = reflect.TypeFor[sink.Cost]()
	networkType     = reflect.TypeFor[netip.Prefix]()
	headersType     = reflect.TypeFor[spec.Headers]()
	envType         = reflect.TypeFor[spec.Env]()
	paramsType      = reflect.TypeFor[Params]()
	destinationType = reflect.TypeFor[Destination]()
)

// isDuration reports whether t is written as a duration. The keys of sinks have the standard library's type.
func isDuration(t reflect.Type) bool {
	return t == durationType || t == reflect.TypeFor[time.Duration]()
}

// isNumber reports whether t is written as a whole number.
func isNumber(t reflect.Type) bool {
	return t.Kind() == reflect.Int || (t.Kind() == reflect.Int64 && !isDuration(t) && t != sizeType && t != costType)
}

// isScalar reports whether t is written as one plain value.
func isScalar(t reflect.Type) bool {
	return t == secretType || t == sizeType || t == costType || t == networkType || isDuration(t) ||
		t == fractionType || t.Kind() == reflect.String || isNumber(t) || t.Kind() == reflect.Bool
}

// value decodes n into v, which is the field of a struct in file.go or of a sink's keys, declared by f. It panics for a type that has
// no form in the file.
func (d *decoder) value(n *yaml.Node, path string, v reflect.Value, f field) {
	d.places[path] = place{d.file, n.Line}
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		d.problem(n, path, "anchors and aliases are not supported; write the value out")
		return
	}
	switch t := v.Type(); {
	case t.Kind() == reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		d.value(n, path, v.Elem(), f)
	case isScalar(t):
		d.scalar(n, path, v, f)
	case t == teamsDirType:
		d.teamsDir(n, path, v)
	case t == sourceSecretType:
		d.sourceSecret(n, path, v)
	case t.Kind() == reflect.Struct:
		d.mapping(n, path, v)
	case t == headersType, t == envType:
		d.secrets(n, path, v)
	case t == paramsType:
		d.params(n, path, v)
	case t.Kind() == reflect.Map:
		d.table(n, path, v, f)
	case t.Kind() == reflect.Slice:
		d.list(n, path, v, f)
	default:
		panic("config: no decoder for " + t.String()) // a type that a declaration must not use
	}
}

// pairs calls visit for every key of a mapping with the nodes of key and value. Keys that are no plain text or that come twice are
// problems, and are not visited.
func (d *decoder) pairs(n *yaml.Node, path string, visit func(key string, k, v *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		d.problem(n, path, "expected a mapping (key: value), found %s", describe(n))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if k.Kind != yaml.ScalarNode || k.Anchor != "" {
			d.problem(k, path, "a key must be plain text")
			continue
		}
		if k.Tag == "!!merge" {
			d.problem(k, path, "merge keys are not supported; write the value out")
			continue
		}
		if line, ok := seen[k.Value]; ok {
			d.problem(k, join(path, k.Value), "duplicate key; the first one is on line %d: rename or remove one of them", line)
			continue
		}
		seen[k.Value] = k.Line
		visit(k.Value, k, n.Content[i+1])
	}
}

// mapping decodes a mapping into a struct. Unknown keys and missing ones are problems. A value's place is the line of its key.
func (d *decoder) mapping(n *yaml.Node, path string, v reflect.Value) {
	if to, ok := reflect.TypeAssert[sinkKeyed](v.Addr()); ok {
		d.sinkType(n, path, to)
	}
	written := map[string]bool{}
	list := members(v)
	if !isNull(n) {
		d.pairs(n, path, func(key string, k, value *yaml.Node) {
			i := slices.IndexFunc(list, func(m member) bool { return m.name == key })
			if i < 0 {
				d.unknown(k, join(path, key), key, v, list)
				return
			}
			written[key] = true
			if isNull(value) {
				d.null(value, join(path, key), list[i].value, list[i].field)
				return
			}
			d.value(value, join(path, key), list[i].value, list[i].field)
			d.places[join(path, key)] = place{d.file, k.Line}
		})
	}
	for _, m := range list {
		if m.required && !written[m.name] {
			d.problem(n, path, "%s is missing: %s", m.name, m.doc)
		}
	}
}

// null decodes a key without a value: as empty where a mapping is expected ("teams:"), else it is a problem.
func (d *decoder) null(n *yaml.Node, path string, v reflect.Value, f field) {
	switch t := v.Type(); {
	case t.Kind() == reflect.Map, t.Kind() == reflect.Struct && t != secretType:
		d.value(&yaml.Node{Kind: yaml.MappingNode, Line: n.Line}, path, v, f)
	default:
		d.problem(n, path, "has no value")
	}
}

// sinkType sets type and keys of a destination, or of a receiver of alerts, before its mapping is decoded, since type may be written last and decides which other
// keys there are. It reports no problems: a wrong type is reported when the mapping is decoded.
func (d *decoder) sinkType(n *yaml.Node, path string, to sinkKeyed) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value != "type" {
			continue
		}
		look := &decoder{env: d.env, uses: d.uses, places: map[string]place{}, unresolved: map[string]bool{}, references: map[string]referring{}, literal: map[literal]string{}}
		var name string
		look.value(n.Content[i+1], join(path, "type"), reflect.ValueOf(&name).Elem(), field{})
		to.setType(name)
	}
}

// unknown reports a key of mapping v that is not in list. In a destination whose type is wrong or not resolved here, the keys of all
// types are allowed.
func (d *decoder) unknown(n *yaml.Node, path, key string, v reflect.Value, list []member) {
	var known []string
	for _, m := range list {
		known = append(known, m.name)
	}
	if to, ok := reflect.TypeAssert[sinkKeyed](v.Addr()); ok {
		others, typ, own := sinkKeys(to.types()), "", to.own()
		if name := v.FieldByName("Type"); name.IsValid() {
			typ = name.String()
		}
		if strings.HasPrefix(path, "teams.") { // a team's own has no teams
			known = slices.DeleteFunc(known, func(name string) bool { return name == "teams" })
		}
		switch {
		case others[key] != nil && own != nil:
			d.problem(n, path, "has no meaning for type %s", typ)
			return
		case others[key] != nil:
			return
		case own == nil:
			known = append(known, keys(others)...)
		}
	}
	if v.Type() == reflect.TypeFor[teamFile]() && slices.ContainsFunc(shapes[reflect.TypeFor[Config]()].fields, func(f field) bool { return f.name == key }) {
		d.problem(n, path, "stands in the main file only: a file of the teams directory has teams, and nothing that is for all of them")
		return
	}
	if slices.Contains(shapes[v.Type()].later, key) {
		d.problem(n, path, "%s is not built yet in this version; remove it", key)
		return
	}
	if near := names.Nearest(key, known); near != "" {
		d.problem(n, path, "unknown key; did you mean %s?", near)
		return
	}
	d.problem(n, path, "unknown key; known are %s", strings.Join(known, ", "))
}

// table decodes a mapping from names to entries, such as the sources of a team. An entry without a value is an empty mapping.
func (d *decoder) table(n *yaml.Node, path string, v reflect.Value, f field) {
	v.Set(reflect.MakeMap(v.Type()))
	d.pairs(n, path, func(key string, k, value *yaml.Node) {
		at := join(path, key)
		if !validName(key) {
			d.problem(k, path, "name %q must match [a-z0-9-]{1,40}", clip(key))
			return
		}
		if isNull(value) {
			value = &yaml.Node{Kind: yaml.MappingNode, Line: k.Line}
		}
		entry := reflect.New(v.Type().Elem()).Elem()
		d.value(value, at, entry, field{shown: f.shown})
		d.places[at] = place{d.file, k.Line}
		if !entry.IsNil() { // nil after a problem
			v.SetMapIndex(reflect.ValueOf(key), entry)
		}
	})
}

// headerForm matches the names of headers; RFC 9110 allows more characters, which nobody uses.
var headerForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)

// envForm matches the names of environment variables.
var envForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,99}$`)

// secretNames returns what the names in a table of secrets must match, and what a name is of, for messages.
func secretNames(t reflect.Type) (form *regexp.Regexp, what string) {
	if t == envType {
		return envForm, "a variable"
	}
	return headerForm, "a header"
}

// secrets decodes a mapping from names to secrets: headers, or variables of an environment.
func (d *decoder) secrets(n *yaml.Node, path string, v reflect.Value) {
	form, what := secretNames(v.Type())
	v.Set(reflect.MakeMap(v.Type()))
	d.pairs(n, path, func(key string, k, value *yaml.Node) {
		at := join(path, key)
		switch {
		case !form.MatchString(key):
			d.problem(k, at, "%q is not the name of %s", clip(key), what)
		case isNull(value):
			d.problem(value, at, "has no value")
		default:
			entry := reflect.New(secretType).Elem()
			d.value(value, at, entry, field{lines: v.Type() == envType})
			v.SetMapIndex(reflect.ValueOf(key), entry)
		}
	})
}

// list decodes a list. The items may have the values that f declares.
func (d *decoder) list(n *yaml.Node, path string, v reflect.Value, f field) {
	if n.Kind != yaml.SequenceNode {
		d.problem(n, path, "expected a list ([a, b]), found %s", describe(n))
		d.unresolved[path] = true // not empty, too
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		if isNull(item) {
			d.problem(item, at, "has no value")
			continue
		}
		d.value(item, at, v.Index(i), field{values: f.values, later: f.later, shown: f.shown})
	}
}

// scalar resolves the references in a plain value and parses it by the type of v. If no role of this process uses the value, it is not
// resolved: then a string keeps its references, and other types keep their zero value. No message shows what a reference led to.
func (d *decoder) scalar(n *yaml.Node, path string, v reflect.Value, f field) {
	if n.Kind != yaml.ScalarNode {
		d.problem(n, path, "expected %s, found %s%s", wanted(v.Type()), describe(n), quoteHint(n))
		return
	}
	if n.Tag == "!!binary" || (strings.HasPrefix(n.Tag, "!") && !strings.HasPrefix(n.Tag, "!!")) {
		d.problem(n, path, "tag %s is not supported", n.Tag)
		return
	}
	text := n.Value
	if hasReference(text) {
		if err := d.env.refused(text); err != nil {
			d.problem(n, path, "%v", err)
			d.unresolved[path] = true
			return
		}
		if !d.uses(path) {
			d.unresolved[path] = true
			d.refer(path, text, nil, true)
			if v.Kind() == reflect.String {
				v.SetString(text)
			}
			return
		}
		resolved, led, err := d.env.expand(text)
		if err != nil {
			d.problem(n, path, "%v", err)
			d.unresolved[path] = true
			return
		}
		d.refer(path, text, led, f.shown || len(f.values) > 0 || v.Kind() != reflect.String && v.Type() != secretType)
		text = resolved
	} else if v.Type() == secretType {
		d.literal[literal{d.env.team(), text}] = path
	}
	if why := lineBreak(text); why != "" && v.Type() == secretType && !f.lines {
		d.problem(n, path, "%s%s", ofReference(n.Value), why)
		d.unresolved[path] = true
		return
	}
	if err := setScalar(v, text, f); err != nil {
		if text != n.Value { // what a reference leads to may be a secret: never print it
			err = fmt.Errorf("the value of %s does not fit here", clip(n.Value))
		}
		d.problem(n, path, "%v", err)
		d.unresolved[path] = true // the checks leave out what is already reported
		return
	}
	if f.cel || v.Kind() == reflect.String && strings.HasPrefix(text, "cel:") {
		d.counted(n, path, len(text)+oneMore)
	}
	if p, ok := reflect.TypeAssert[netip.Prefix](v); ok && d.env.border != nil {
		if err := d.env.border.network(p); err != nil {
			d.problem(n, path, "%v", err)
			d.unresolved[path] = true
		}
	}
}

// lineBreak says what is wrong with a secret of more than one line, such as one that echo wrote into a variable: no signature would match,
// and no header takes it. It is empty for one line.
func lineBreak(secret string) string {
	rest := strings.TrimRight(secret, "\r\n")
	switch {
	case strings.ContainsAny(rest, "\r\n"):
		return "has more than one line: a secret is one line; is this the right one?"
	case rest != secret:
		return "ends in a line break, which would be part of the secret: write it without, by printf '%s' instead of echo (of a file, one is cut off)"
	}
	return ""
}

// ofReference begins a message about what a reference led to, which is not shown.
func ofReference(written string) string {
	if !hasReference(written) {
		return ""
	}
	return "the value of " + clip(written) + " "
}

// setScalar parses text by the type of v, checks it against the minimum or the list of values if f declares one, and sets v.
func setScalar(v reflect.Value, text string, f field) error {
	switch {
	case v.Type() == secretType:
		if text == "" {
			return fmt.Errorf("is empty")
		}
		v.Set(reflect.ValueOf(schemas.NewSecret(text)))
		return nil
	case isDuration(v.Type()):
		return setDuration(v, text)
	case v.Type() == networkType:
		return setNetwork(v, text)
	case v.Type() == sizeType:
		size, err := ParseSize(text)
		if err != nil {
			return err
		}
		if int64(size) < f.minimum {
			return fmt.Errorf("must be at least %d", f.minimum)
		}
		v.SetInt(int64(size))
		return nil
	case v.Type() == costType:
		cost, err := sink.ParseCost(text)
		if err != nil || cost == 0 {
			return fmt.Errorf("%q is no cost: a decimal above 0 with at most six places, such as 0.25", clip(text))
		}
		v.SetInt(int64(cost))
		return nil
	case isNumber(v.Type()):
		i, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", clip(text))
		}
		if i < f.minimum {
			return fmt.Errorf("must be at least %d", f.minimum)
		}
		v.SetInt(i)
	case v.Type() == fractionType:
		share, err := strconv.ParseFloat(text, 64)
		if err != nil || !(share > 0 && share <= 1) {
			return fmt.Errorf("%q is no number above 0, and 1 at most", clip(text))
		}
		v.SetFloat(share)
	case v.Kind() == reflect.Bool:
		if text != "true" && text != "false" {
			return fmt.Errorf("%q is neither true nor false", clip(text))
		}
		v.SetBool(text == "true")
	default:
		v.SetString(text)
	}
	return oneOf(text, f)
}

// setDuration sets v, a Duration or a time.Duration, which must not be negative.
func setDuration(v reflect.Value, text string) error {
	duration, err := ParseDuration(text)
	if err != nil {
		return err
	}
	if duration < 0 {
		return fmt.Errorf("%q is negative", text)
	}
	v.SetInt(int64(duration))
	return nil
}

// setNetwork sets v to a network, whose address must have no bits beyond the prefix.
func setNetwork(v reflect.Value, text string) error {
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return fmt.Errorf("%q is not a network such as 127.0.0.0/8", clip(text))
	case p != p.Masked():
		return fmt.Errorf("%s has bits behind its mask; write %s", text, p.Masked())
	}
	v.Set(reflect.ValueOf(p))
	return nil
}

// oneOf returns an error if f declares a list of values and text is not in it.
func oneOf(text string, f field) error {
	if len(f.values) == 0 || slices.Contains(f.values, text) {
		return nil
	}
	if slices.Contains(f.later, text) {
		return fmt.Errorf("%s is not built yet in this version; today: %s", text, strings.Join(f.values, ", "))
	}
	return fmt.Errorf("%q is not one of %s%s", clip(text), strings.Join(f.values, ", "), names.DidYouMean(text, f.values))
}
