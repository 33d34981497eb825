package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

// printList prints a page in the form that -o asks for: columns make the table, id makes the lines of -o id. Where the form does not say that
// there is more than this page, stderr does; with a table also that there is nothing at all.
func printList[T any](e *env, page api.Page[T], id func(T) string, columns ...column[T]) error {
	if page.Items == nil {
		page.Items = []T{}
	}
	e.cut = page.Next != "" || page.More
	switch e.output {
	case "json":
		return printJSON(e.Stdout, page)
	case "jsonl":
		enc := json.NewEncoder(e.Stdout)
		enc.SetEscapeHTML(false)
		for _, item := range page.Items {
			if err := enc.Encode(item); err != nil {
				return err
			}
		}
		sayMore(e, page)
		return nil
	case "yaml":
		return printYAML(e.Stdout, page)
	case "id":
		for _, item := range page.Items {
			fmt.Fprintln(e.Stdout, plain(id(item)))
		}
		sayMore(e, page)
		return nil
	}
	if err := writeFitting(e.Stdout, page.Items, e.table(), columns); err != nil {
		return err
	}
	if len(page.Items) == 0 && page.Search == nil { // else it was said what was found
		fmt.Fprintln(e.Stderr, "nothing to list")
	}
	sayMore(e, page)
	return nil
}

// sayMore says on stderr what a page leaves out. Where lines are watched, it does not: they are followed, and would have it between them every time.
func sayMore[T any](e *env, page api.Page[T]) {
	if e.byLine {
		return
	}
	if len(page.Elsewhere) > 0 {
		fmt.Fprintf(e.Stderr, "without %s: another process has that ledger; ask that one, by --url\n", strings.Join(page.Elsewhere, ", "))
	}
	if page.Next != "" {
		fmt.Fprintf(e.Stderr, "there is more: --cursor %s\n", page.Next)
	}
	if page.More {
		fmt.Fprintf(e.Stderr, "these are %d, and there may be more: filters such as --subscription, --entity or --class find them\n", len(page.Items))
	}
}

// none is a cell without a text.
const none = "-"

// cell returns the text of a cell: "-" for an empty one, and no character that would break the table, whatever a provider wrote.
func cell(s string) string {
	if s == "" {
		return none
	}
	return plain(s)
}

// plain replaces control characters, line separators and characters that change the direction of text: a terminal must not obey
// text that came from outside.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f || (0x80 <= r && r < 0xa0) || r == 0x2028 || r == 0x2029 || (0x202a <= r && r <= 0x202e) || (0x2066 <= r && r <= 0x2069) {
			return '�'
		}
		return r
	}, s)
}

// plainLines is plain of a text that may have several lines: all but the first begin with indent.
func plainLines(s, indent string) string {
	text := strings.TrimRight(strings.ReplaceAll(s, "\r\n", "\n"), "\n")
	return strings.ReplaceAll(visibleBody([]byte(text)), "\n", "\n"+indent)
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// printYAML converts v to JSON and the JSON to YAML. So both forms have the same names, and numbers stay exact.
func printYAML(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var node yaml.Node
	if err := yaml.Unmarshal(escaped(data), &node); err != nil {
		return err
	}
	toBlockStyle(&node)
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(&node); err != nil {
		return err
	}
	_, err = w.Write(b.Bytes())
	return err
}

// escaped writes the characters that JSON takes as they are, and YAML refuses or changes, as \uNNNN: they stand in JSON's texts alone.
func escaped(data []byte) []byte {
	var b bytes.Buffer
	for _, r := range string(data) {
		if 0x7f <= r && r < 0xa0 || r == 0xfeff || r == 0xfffe || r == 0xffff {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.Bytes()
}

// toBlockStyle drops the flow style and the quotes that a node and all below it have from JSON, so that they are written in YAML's block
// style. Empty lists and maps stay [] and {}; a text that would read as a number is quoted again, by its tag.
func toBlockStyle(n *yaml.Node) {
	if len(n.Content) > 0 || n.Kind == yaml.ScalarNode {
		n.Style = 0
	}
	for _, c := range n.Content {
		toBlockStyle(c)
	}
}

// printOne prints a single value in the form that -o asks for. text writes the form for people; id is the line of -o id.
func printOne(e *env, v any, id string, text func(w io.Writer)) error {
	switch e.output {
	case "json":
		return printJSON(e.Stdout, v)
	case "jsonl":
		enc := json.NewEncoder(e.Stdout)
		enc.SetEscapeHTML(false)
		return enc.Encode(v)
	case "yaml":
		return printYAML(e.Stdout, v)
	case "id":
		fmt.Fprintln(e.Stdout, plain(id))
		return nil
	}
	text(e.Stdout)
	return nil
}

// table returns how tables look.
func (e *env) table() tableForm {
	return tableForm{wide: e.output == "wide", iso: e.isoTime, now: time.Now()}
}

// formatTime returns a time outside of tables, as --time iso has it in them: it is read together with logs. It is empty if t is zero.
func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func formatOptionalTime(t *time.Time) string {
	if t == nil {
		return ""
	}
	return formatTime(*t)
}
