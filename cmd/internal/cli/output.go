package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

// column is one column of a table.
type column[T any] struct {
	name  string
	wide  bool // the column is shown with -o wide only
	value func(T) string
}

// printList prints a page in the form that -o asks for: columns make the table, id makes the lines of -o id. With a table, stderr
// says if there is more than this page.
func printList[T any](e *env, page api.Page[T], id func(T) string, columns ...column[T]) error {
	if page.Items == nil {
		page.Items = []T{}
	}
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
		return nil
	case "yaml":
		return printYAML(e.Stdout, page)
	case "id":
		for _, item := range page.Items {
			fmt.Fprintln(e.Stdout, plain(id(item)))
		}
		return nil
	}
	if err := writeTable(e.Stdout, page.Items, e.output == "wide", columns); err != nil {
		return err
	}
	if page.Next != "" {
		fmt.Fprintf(e.Stderr, "there is more: --cursor %s\n", page.Next)
	}
	if page.More {
		fmt.Fprintf(e.Stderr, "these are %d, and there are more: filters such as --team or --class find them\n", len(page.Items))
	}
	return nil
}

// writeTable writes a line of column names and a line for each item.
func writeTable[T any](w io.Writer, items []T, wide bool, columns []column[T]) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	row := func(cell func(column[T]) string) {
		var cells []string
		for _, c := range columns {
			if wide || !c.wide {
				cells = append(cells, cell(c))
			}
		}
		fmt.Fprintln(tw, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
	}
	row(func(c column[T]) string { return strings.ToUpper(c.name) })
	for _, item := range items {
		row(func(c column[T]) string { return cell(c.value(item)) })
	}
	return tw.Flush()
}

// cell returns the text of a cell: "-" for an empty one, and no character that would break the table, whatever a provider wrote.
func cell(s string) string {
	if s == "" {
		return "-"
	}
	return plain(s)
}

// plain replaces control characters, line separators and characters that change the direction of text: a terminal must not obey
// text that came from outside.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f || (0x80 <= r && r < 0xa0) || r == 0x2028 || r == 0x2029 || (0x202a <= r && r <= 0x202e) {
			return '�'
		}
		return r
	}, s)
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
	if err := yaml.Unmarshal(data, &node); err != nil {
		return err
	}
	block(&node)
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(&node); err != nil {
		return err
	}
	_, err = w.Write(b.Bytes())
	return err
}

// block drops the flow style and the quotes that a node has from JSON, so that it is written in YAML's block style. Empty lists and
// maps stay [] and {}.
func block(n *yaml.Node) {
	if len(n.Content) > 0 || n.Kind == yaml.ScalarNode {
		n.Style = 0
	}
	for _, c := range n.Content {
		block(c)
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

// formatTime returns a time in UTC, to the second; empty if it is zero.
func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

func formatOptionalTime(t *time.Time) string {
	if t == nil {
		return ""
	}
	return formatTime(*t)
}
