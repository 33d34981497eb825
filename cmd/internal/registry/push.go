package registry

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/jsonschema"
)

// What the registry has of a schema, and what pushing does with it.
const (
	Unchanged = "unchanged" // it has it
	Added     = "new"       // its subject has none
	Changed   = "changed"   // its subject has another one, and takes this
	Refused   = "refused"   // it does not take it, or it cannot be pushed
)

// Item is a schema, and what the registry says of it.
type Item struct {
	Subject string   `json:"subject"`
	Schema  string   `json:"schema"` // its $id
	Action  string   `json:"action"`
	ID      int      `json:"id"`      // 0: it is not registered
	Version int      `json:"version"` // of the subject; 0: it is not registered
	GUID    string   `json:"guid"`    // empty: it is not registered, or the registry gives none
	Sources []string `json:"sources"` // that hold bodies against it
	Why     string   `json:"why"`     // of refused
	// Changes says in sentences what a changed one does to events that fitted what the subject has now.
	Changes []string `json:"changes"`

	schema *jsonschema.Schema
}

// Plan asks the registry about each schema, and changes nothing.
func (c *Client) Plan(ctx context.Context, wanted []Wanted) ([]Item, error) {
	items := []Item{}
	for _, w := range wanted {
		if i := slices.IndexFunc(items, func(i Item) bool { return i.Subject == w.Subject && bytes.Equal(i.schema.Text(), w.Schema.Text()) }); i >= 0 {
			items[i].Sources = append(items[i].Sources, strings.TrimPrefix(w.Source, "/"))
			continue
		}
		item := Item{Subject: w.Subject, Schema: w.Schema.ID, Sources: []string{strings.TrimPrefix(w.Source, "/")}, Changes: []string{}, schema: w.Schema}
		if err := c.plan(ctx, &item); err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

func (c *Client) plan(ctx context.Context, item *Item) error {
	if item.Schema == "" {
		item.Action, item.Why = Refused, `it has no "$id": events could not name it`
		return nil
	}
	id, found, err := c.Lookup(ctx, Wanted{Subject: item.Subject, Schema: item.schema})
	if err != nil || found {
		item.registered(Unchanged, id)
		return err
	}
	latest, err := c.client.SchemaByVersion(ctx, item.Subject, -1)
	switch code(err) {
	case noSubject, noVersion:
		item.Action = Added
		return nil
	}
	if err != nil {
		return c.say("read the latest schema of "+item.Subject, err)
	}
	item.Action, item.Changes = Changed, changes(latest.Schema, item.schema)
	answer, err := c.client.CheckCompatibility(sr.WithParams(ctx, sr.Verbose), item.Subject, -1, registrySchema(item.schema))
	switch {
	case code(err) == invalid || code(err) == incompatible:
		item.refuse(err)
	case err != nil:
		return c.say("check "+item.Subject, err)
	case !answer.Is:
		item.Action, item.Why = Refused, "not compatible with version "+fmt.Sprint(latest.Version)+" by the rule that the registry has for it: "+bounded(strings.Join(answer.Messages, "; "))
	}
	return nil
}

func (i *Item) registered(action string, id ID) {
	i.Action, i.ID, i.Version, i.GUID = action, id.Number, id.Version, id.GUID
}

func (i *Item) refuse(err error) {
	i.Action, i.Why = Refused, "the registry says: "+bounded(err.Error())
}

// changes says how a schema differs from that which the registry has.
func changes(has sr.Schema, now *jsonschema.Schema) []string {
	if has.Type != sr.TypeJSON {
		return []string{fmt.Sprintf("the subject has a schema of type %s", has.Type)}
	}
	before, err := jsonschema.Parse([]byte(has.Schema))
	if err != nil {
		return []string{"the subject has a schema that cannot be compared: " + err.Error()}
	}
	words := []string{}
	for _, change := range jsonschema.Compare(before, now) {
		words = append(words, change.Words)
	}
	if len(words) == 0 {
		words = append(words, "another text, and the same events fit")
	}
	return words
}

// Push registers what is new or changed, and returns what the registry has then. If one is refused, none is registered.
func (c *Client) Push(ctx context.Context, wanted []Wanted) ([]Item, error) {
	items, err := c.Plan(ctx, wanted)
	if err != nil || slices.ContainsFunc(items, func(i Item) bool { return i.Action == Refused }) {
		return items, err
	}
	for n := range items {
		if items[n].Action == Unchanged {
			continue
		}
		if err := c.register(ctx, &items[n]); err != nil {
			done := slices.DeleteFunc(slices.Clone(items[:n]), func(i Item) bool { return i.Action == Unchanged })
			return items, fmt.Errorf("%w (registered before it: %d; push again goes on)", err, len(done))
		}
	}
	return items, nil
}

// register registers a schema. That another process has changed the subject meanwhile, so that it is refused now, is no error.
func (c *Client) register(ctx context.Context, item *Item) error {
	_, err := c.client.RegisterSchema(ctx, item.Subject, registrySchema(item.schema), -1, -1)
	if code(err) == invalid || code(err) == incompatible {
		item.refuse(err)
		return nil
	}
	if err != nil {
		return c.say("register "+item.Subject, err)
	}
	id, found, err := c.Lookup(ctx, Wanted{Subject: item.Subject, Schema: item.schema})
	if err == nil && !found {
		err = schemas.Errorf(schemas.Permanent, "register "+item.Subject, "the registry at %s took it and does not have it", c.url)
	}
	if err == nil {
		item.registered(item.Action, id)
	}
	return err
}
