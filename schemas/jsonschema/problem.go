package jsonschema

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// problemOf says the first problem of a body or a schema in one line, and how many more there are. It has no value of the body: those
// must not get into logs.
func problemOf(err *validator.ValidationError) string {
	all := leaves(err, nil)
	slices.Sort(all)
	all = slices.Compact(all)
	first := all[0]
	if len(first) > mostShown {
		first = strings.ToValidUTF8(first[:mostShown], "") + "..."
	}
	if len(all) == 1 {
		return first
	}
	return fmt.Sprintf("%s; and %d more", first, len(all)-1)
}

// wrongWord returns what is wrong with a word of a schema that is none of those that JSON Schema has, such as a type; "" if none is.
func wrongWord(err *validator.ValidationError) string {
	if k, ok := err.ErrorKind.(*kind.Enum); ok {
		var words []string
		for _, w := range k.Want {
			words = append(words, fmt.Sprint(w))
		}
		return place(err.InstanceLocation) + "is none of " + list(words)
	}
	for _, cause := range err.Causes {
		if wrong := wrongWord(cause); wrong != "" {
			return wrong
		}
	}
	return ""
}

// leaves collects the problems below err. Of alternatives of which none fits, only that is said.
func leaves(err *validator.ValidationError, all []string) []string {
	switch err.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf, *kind.Contains:
	default:
		if len(err.Causes) > 0 {
			for _, cause := range err.Causes {
				all = leaves(cause, all)
			}
			return all
		}
	}
	return append(all, place(err.InstanceLocation)+words(err.ErrorKind))
}

// place names a place in the body, as a JSON Pointer.
func place(tokens []string) string {
	if len(tokens) == 0 {
		return ""
	}
	var b strings.Builder
	for _, t := range tokens {
		b.WriteByte('/')
		b.WriteString(escaper.Replace(t))
	}
	return shown(b.String()) + " "
}

var escaper = strings.NewReplacer("~", "~0", "/", "~1")

// words says what is wrong at a place.
func words(k validator.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Required:
		return "lacks " + list(k.Missing)
	case *kind.Type:
		return "is " + article(k.Got) + ", not " + alternatives(k.Want)
	case *kind.AdditionalProperties:
		return "has fields that the schema does not allow: " + list(k.Properties)
	case *kind.DependentRequired:
		return "has " + shown(k.Prop) + ", and lacks " + list(k.Missing)
	case *kind.AnyOf:
		return "fits none of the alternatives (anyOf)"
	case *kind.OneOf:
		if len(k.Subschemas) == 0 {
			return "fits none of the alternatives (oneOf)"
		}
		return "fits more than one of the alternatives (oneOf)"
	case *kind.Contains:
		return "has no element that fits contains"
	case *kind.Format: // of a schema: bodies are not held against formats
		return "is no " + k.Want + ": " + shown(k.Err.Error())
	case *kind.FalseSchema:
		return "is not allowed"
	case *kind.Const:
		return "is not what const says"
	case *kind.Enum:
		return "is none of the values in enum"
	}
	return "does not fit " + strings.Join(k.KeywordPath(), ".")
}

// article returns a kind as JSON Schema names it, with its article.
func article(kind string) string {
	switch kind {
	case "null":
		return kind
	case "object", "array", "integer":
		return "an " + kind
	}
	return "a " + kind
}

func alternatives(kinds []string) string {
	var all []string
	for _, k := range kinds {
		all = append(all, article(k))
	}
	return strings.Join(all, " or ")
}

func list(names []string) string {
	const most = 8
	var all []string
	for _, n := range names[:min(len(names), most)] {
		all = append(all, shown(n))
	}
	slices.Sort(all)
	if len(names) > most {
		all = append(all, fmt.Sprintf("%d more", len(names)-most))
	}
	return strings.Join(all, ", ")
}

const mostShown = 200

// shown returns a text of a stranger as it can stand in a line: one that is long is cut, one with control characters quoted.
func shown(text string) string {
	if len(text) > mostShown {
		text = strings.ToValidUTF8(text[:mostShown], "") + "..."
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}
