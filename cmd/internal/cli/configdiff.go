package cli

import (
	"fmt"
	"slices"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

type configDiffCmd struct {
	listenerFlag
	watchFlag
	teamFlag
}

// Run lists what the files have and the running process has not.
func (c *configDiffCmd) Run(e *env, client *api.Client) error {
	page, err := client.ConfigDiff(e.ctx)
	if err != nil {
		return err
	}
	type item = api.ConfigDifference
	if c.Team != "" {
		page.Items = slices.DeleteFunc(page.Items, func(i item) bool { return !i.OfAll() && i.Team != c.Team })
	}
	if len(page.Items) == 0 && e.output == "table" {
		fmt.Fprintln(e.Stderr, "the process has all that the files have")
		return nil
	}
	return printList(e, page, func(i item) string { return i.Path },
		column[item]{name: "team", value: func(i item) string { return i.Team }},
		column[item]{name: "path", whole: true, value: func(i item) string { return i.Path }},
		column[item]{name: "running", value: func(i item) string { return i.Running }},
		column[item]{name: "file", value: func(i item) string { return i.File }},
		column[item]{name: "reason", whole: true, value: func(i item) string { return i.Reason }})
}
