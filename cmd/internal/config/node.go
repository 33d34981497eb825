package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxFile is the largest configuration file, in bytes.
const maxFile = 4 << 20

// parse returns the content of a file that must have one YAML document; nil if the document is empty.
func parse(file string, data []byte) (*yaml.Node, Problems) {
	if len(data) > maxFile {
		return nil, Problems{{File: file, Message: fmt.Sprintf("is larger than %d bytes", maxFile)}}
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, syntaxProblems(file, data, err)
	}
	if err := dec.Decode(&second); err == nil {
		return nil, Problems{{File: file, Line: second.Line, Message: "has more than one YAML document"}}
	} else if !errors.Is(err, io.EOF) {
		return nil, syntaxProblems(file, data, err)
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 || isNull(doc.Content[0]) {
		return nil, nil
	}
	return doc.Content[0], nil
}

var (
	yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)
	// unquoted finds a reference that is not quoted inside [] or {}, the usual cause of a syntax error.
	unquoted = regexp.MustCompile(`[\[{][^"'\n]*\$\{`)
	// star finds a value that begins with a *, which YAML takes for an alias.
	star = regexp.MustCompile(`(?m)([\[,]|: |- )\s*\*([\s,\].]|$)`)
)

const quoting = `; inside [] and {} a reference needs quotes: ["${env:NAME}"]`

// syntaxProblems makes a problem of an error of the YAML decoder: with its line, and a hint where a reference or a * without quotes may
// be the cause.
func syntaxProblems(file string, data []byte, err error) Problems {
	message, line := err.Error(), 0
	if m := yamlLine.FindStringSubmatch(message); m != nil {
		message = strings.TrimPrefix(message, m[0])
		line, _ = strconv.Atoi(m[1])
	}
	at := tabbed(data, line)
	tab := at > 0 && (strings.Contains(message, "tab character") || at == max(line, 1) && strings.Contains(message, "cannot start any token"))
	message = "not YAML: " + message
	switch {
	case tab:
		line, message = at, "not YAML: the line is indented with a tab; YAML takes spaces only"
	case unquoted.Match(data):
		message += quoting
	case star.Match(data):
		message += `; a value that begins with * needs quotes: ["*"]`
	}
	return Problems{{File: file, Line: line, Message: message}}
}

// tabbed returns the first line, from one on, with a tab in its indentation; 0 if none has one. The decoder names the line of the tab or one
// before it, and takes tabs that are in front of some comments and inside of texts.
func tabbed(data []byte, from int) int {
	for n, line := range bytes.Split(data, []byte("\n")) {
		indent := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
		if n+1 >= from && len(indent) < len(line) && bytes.ContainsRune(indent, '\t') {
			return n + 1
		}
	}
	return 0
}

// quoteHint returns a hint for a mapping or list that was probably meant to be a reference: in {url: ${env:X}}, YAML takes what is
// behind the $ for a mapping. It is empty for others.
func quoteHint(n *yaml.Node) string {
	for _, c := range n.Content {
		if strings.Contains(c.Value, "env") || strings.Contains(c.Value, "file") || strings.HasSuffix(c.Value, "$") {
			return quoting
		}
	}
	return ""
}

func isNull(n *yaml.Node) bool {
	return n.Kind == 0 || (n.Kind == yaml.ScalarNode && n.Tag == "!!null" && n.Anchor == "")
}

// describe says what a node is, for messages that say what was found instead of what was expected.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	return fmt.Sprintf("%q", clip(n.Value))
}

// wanted names a scalar type in an error.
func wanted(t reflect.Type) string {
	switch {
	case isDuration(t):
		return "a duration"
	case t == networkType:
		return "a network"
	case t == sizeType:
		return "a size"
	case isNumber(t), t == fractionType, t == costType:
		return "a number"
	case t.Kind() == reflect.Bool:
		return "true or false"
	}
	return "text"
}

// clip shortens text from the file that an error quotes.
func clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "..."
	}
	return s
}

var nameForm = regexp.MustCompile(`^[a-z0-9-]{1,40}$`)

// validName reports whether s may name a team, source, destination, subscription or action.
func validName(s string) bool { return nameForm.MatchString(s) }
