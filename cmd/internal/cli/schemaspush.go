package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/registry"
	"github.com/forebay-io/forebay/schemas"
)

type schemasPushCmd struct {
	fileFlags
	DryRun bool `help:"Say what the registry has, what would be registered and what of that it refuses; register nothing."`
}

// Run registers what the registry lacks. If it refuses one schema, nothing is registered.
func (c *schemasPushCmd) Run(e *env) error {
	cfg, err := config.Load(c.options(e, config.RoleSchemas))
	if err != nil {
		return err
	}
	if cfg.Registry == nil {
		return schemas.Errorf(schemas.NotFound, "push schemas", "%s has no registry: write registry: {url: \"https://HOST:8081\"}", c.File)
	}
	wanted, err := registry.Of(cfg)
	if err != nil {
		return err
	}
	client, err := registry.New(*cfg.RegistryFound())
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(e.ctx, 5*time.Minute)
	defer cancel()
	do := client.Push
	if c.DryRun {
		do = client.Plan
	}
	items, err := do(ctx, wanted)
	if items == nil {
		return fmt.Errorf("%w; nothing was registered", err)
	}
	return errors.Join(listPushed(e, items), err, c.summarize(e, items))
}

// summarize says what was done, or would be; the error is of schemas that are refused.
func (c *schemasPushCmd) summarize(e *env, items []registry.Item) error {
	counts, pushed := map[string]int{}, 0
	for _, i := range items {
		counts[i.Action]++
		if i.Action != registry.Unchanged && i.ID != 0 {
			pushed++
		}
	}
	if n := counts[registry.Refused]; n > 0 {
		return &exitError{code: exitProblems, err: fmt.Errorf("%d of %d refused, and %d registered: fix what is refused, or relax the registry's rule of compatibility for its subject", n, len(items), pushed)}
	}
	if len(items) == 0 {
		fmt.Fprintln(e.Stderr, "no source holds bodies against a schema (json_schema: {check: warn}): there is nothing to register")
		return nil
	}
	done := "registered"
	if c.DryRun {
		done = "to register (dry run: nothing was)"
	}
	fmt.Fprintf(e.Stderr, "%d schemas: %d new and %d changed %s, %d unchanged\n", len(items), counts[registry.Added], counts[registry.Changed], done, counts[registry.Unchanged])
	return nil
}

// listPushed lists schemas and, in a table, what changed ones change below it.
func listPushed(e *env, items []registry.Item) error {
	type item = registry.Item
	number := func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	err := printList(e, api.Page[item]{Items: items}, func(i item) string { return i.Subject },
		column[item]{name: "subject", whole: true, value: func(i item) string { return i.Subject }},
		column[item]{name: "action", whole: true, value: func(i item) string { return i.Action }},
		column[item]{name: "id", value: func(i item) string { return number(i.ID) }},
		column[item]{name: "version", value: func(i item) string { return number(i.Version) }},
		column[item]{name: "schema", wide: true, whole: true, value: func(i item) string { return i.Schema }},
		column[item]{name: "sources", wide: true, whole: true, value: func(i item) string { return strings.Join(i.Sources, " ") }},
		column[item]{name: "why", whole: true, value: func(i item) string { return i.Why }})
	if err != nil || !slices.Contains([]string{"table", "wide"}, e.output) {
		return err
	}
	for _, i := range items {
		for _, words := range i.Changes {
			fmt.Fprintln(e.Stdout, plain(i.Subject+": "+words))
		}
	}
	return nil
}
