package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/ingest/drift"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/jsonschema"
)

type schemasListCmd struct{}

// schemaItem is a schema of the catalogue as lists have it.
type schemaItem struct {
	Name  string   `json:"name"`
	ID    string   `json:"id"`
	Title string   `json:"title"`
	Types []string `json:"types"`
}

// Run lists the catalogue's schemas. It asks no running process.
func (c *schemasListCmd) Run(e *env) error {
	var items []schemaItem
	for _, s := range jsonschema.All() {
		items = append(items, schemaItem{s.Name(), s.ID, s.Title, s.Types})
	}
	return printList(e, api.Page[schemaItem]{Items: items}, func(i schemaItem) string { return i.Name },
		column[schemaItem]{name: "name", whole: true, value: func(i schemaItem) string { return i.Name }},
		column[schemaItem]{name: "what", value: func(i schemaItem) string { return i.Title }},
		column[schemaItem]{name: "types", wide: true, whole: true, value: func(i schemaItem) string { return strings.Join(i.Types, " ") }},
		column[schemaItem]{name: "id", wide: true, whole: true, value: func(i schemaItem) string { return i.ID }})
}

type schemasGetCmd struct {
	Name string `arg:"" help:"A name that list has, an $id or an event type."`
}

// Run writes a schema as it stands in the catalogue.
func (c *schemasGetCmd) Run(e *env) error {
	s, ok := jsonschema.Lookup(c.Name)
	if !ok {
		return noSchema(c.Name)
	}
	_, err := e.Stdout.Write(s.Text())
	return err
}

func noSchema(name string) error {
	return &schemas.Error{Kind: schemas.NotFound, Op: "look up " + name, Err: errors.New("the catalogue has no schema for it; `forebay schemas list` shows for which types there are some")}
}

// schemaOf returns the schema that an argument names: a file, an event type or an $id. A file that is no schema is a problem that was found.
func schemaOf(name string) (*jsonschema.Schema, error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		if s, ok := jsonschema.Lookup(name); ok {
			return s, nil
		}
		return nil, schemas.Errorf(schemas.NotFound, "read a schema", "%s is no file, and the catalogue has no schema of that $id or for that event type; `forebay schemas list` shows for which there are some", name)
	}
	if err != nil {
		return nil, err
	}
	s, err := jsonschema.Parse(text)
	if err != nil {
		return nil, &exitError{code: exitProblems, err: fmt.Errorf("%s: %w", name, err)}
	}
	return s, nil
}

type schemasCheckCmd struct {
	Schema string   `arg:"" help:"A file with a JSON Schema, or one of the catalogue: a name, an $id or an event type."`
	Bodies []string `arg:"" optional:"" help:"Files with bodies to hold against it; none: the schema itself is checked."`
}

// checkItem is what came of holding a body against a schema.
type checkItem struct {
	File    string             `json:"file"`
	Verdict jsonschema.Verdict `json:"verdict"`
	Why     string             `json:"why"`
}

// Run says of each body whether it fits. The exit code is 5 if one does not, or if the schema is none.
func (c *schemasCheckCmd) Run(e *env) error {
	s, err := schemaOf(c.Schema)
	if err != nil {
		return err
	}
	if len(c.Bodies) == 0 {
		fmt.Fprintf(e.Stderr, "%s is a JSON Schema that a source can have\n", c.Schema)
		return nil
	}
	var items []checkItem
	misfits := 0
	for _, file := range c.Bodies {
		body, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		item := checkItem{File: file}
		if item.Verdict, item.Why = s.Check(body); item.Verdict != jsonschema.Fits {
			misfits++
		}
		items = append(items, item)
	}
	err = printList(e, api.Page[checkItem]{Items: items}, func(i checkItem) string { return i.File },
		column[checkItem]{name: "body", whole: true, value: func(i checkItem) string { return i.File }},
		column[checkItem]{name: "verdict", whole: true, value: func(i checkItem) string { return string(i.Verdict) }},
		column[checkItem]{name: "why", whole: true, value: func(i checkItem) string { return i.Why }})
	if err == nil && misfits > 0 {
		return &exitError{code: exitProblems, err: fmt.Errorf("%d of %d do not fit", misfits, len(items))}
	}
	return err
}

type schemasDiffCmd struct {
	Before string `arg:"" help:"A file with a JSON Schema, or one of the catalogue: a name, an $id or an event type."`
	After  string `arg:"" help:"The schema to compare it with: a file, or one of the catalogue as above."`
}

// Run says what changes for senders and readers. The exit code is 5 if an event that fitted may be refused.
func (c *schemasDiffCmd) Run(e *env) error {
	before, err := schemaOf(c.Before)
	if err != nil {
		return err
	}
	after, err := schemaOf(c.After)
	if err != nil {
		return err
	}
	changes, refuses := jsonschema.Compare(before, after), 0
	for _, change := range changes {
		if change.Effect != jsonschema.Widens {
			refuses++
		}
	}
	if err := e.printChanges(changes); err != nil {
		return err
	}
	if refuses > 0 {
		return &exitError{code: exitProblems, err: fmt.Errorf("not compatible: %d of %d changes may refuse events that fitted", refuses, len(changes))}
	}
	fmt.Fprintf(e.Stderr, "compatible: every event that fitted %s fits %s\n", c.Before, c.After)
	return nil
}

// printChanges prints sentences, one a line, or what -o asks for.
func (e *env) printChanges(changes []jsonschema.Change) error {
	if e.output != "table" && e.output != "wide" {
		return printList(e, api.Page[jsonschema.Change]{Items: changes}, func(c jsonschema.Change) string { return c.Place })
	}
	for _, c := range changes {
		if _, err := io.WriteString(e.Stdout, plain(c.Words)+"\n"); err != nil {
			return err
		}
	}
	return nil
}

type schemasDriftCmd struct {
	listenerFlag
	watchFlag
	teamFlag
}

// Run lists the fields whose shape has changed. What cannot be told yet is said on stderr.
func (c *schemasDriftCmd) Run(e *env, client *api.Client) error {
	d, err := client.DriftReport(e.ctx)
	if err != nil {
		return err
	}
	if err := c.narrow(d); err != nil {
		return err
	}
	if e.output == "json" || e.output == "yaml" {
		return printOne(e, d, "", nil)
	}
	type item = api.DriftItem
	err = printList(e, api.Page[item]{Items: d.Items}, func(i item) string { return i.Field },
		column[item]{name: "source", value: func(i item) string { return i.Team + "/" + i.Source }},
		column[item]{name: "type", value: func(i item) string { return i.Type }},
		column[item]{name: "field", whole: true, value: func(i item) string { return i.Field }},
		column[item]{name: "change", whole: true, value: func(i item) string { return i.Change }},
		column[item]{name: "was", value: func(i item) string { return strings.Join(i.Was, "|") }},
		column[item]{name: "is", value: func(i item) string { return strings.Join(i.Is, "|") }},
		column[item]{name: "since", at: func(i item) *time.Time { return &i.Since }})
	if e.output == "table" || e.output == "wide" {
		fmt.Fprintln(e.Stderr, lookedAt(d))
	}
	return err
}

// narrow leaves the team's in a report. Whose types were looked at is known also where nothing has changed.
func (c *schemasDriftCmd) narrow(d *api.Drift) error {
	types, err := ofTeam(c.teamFlag, api.Page[api.DriftType]{Items: d.Types}, func(t api.DriftType) []string { return []string{t.Team} })
	if d.Types = types.Items; c.Team != "" {
		d.Items = slices.DeleteFunc(d.Items, func(i api.DriftItem) bool { return i.Team != c.Team })
	}
	return err
}

// lookedAt says how much was looked at.
func lookedAt(d *api.Drift) string {
	learning, more := 0, 0
	for _, t := range d.Types {
		if t.Learning {
			learning++
		}
		if t.More {
			more++
		}
	}
	text := fmt.Sprintf("%d event types seen since this process began", len(d.Types))
	if learning > 0 {
		text += fmt.Sprintf("; %d of them with fewer than %d bodies, so that nothing is compared yet", learning, drift.Learn)
	}
	if more > 0 {
		text += fmt.Sprintf("; %d with more fields than are kept", more)
	}
	return text
}
