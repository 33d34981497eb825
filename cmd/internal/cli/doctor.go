package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/build"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/doctor"
)

type doctorCmd struct {
	fileFlags
	roleFlag
	subscriptionsFlag
	listenerFlag
	Pre    bool   `help:"Before anything is started: from the file, the brokers and Postgres alone."`
	Bundle string `placeholder:"FILE" help:"Also write what was found into FILE, a new tar.gz for those who help: checks, configuration, metrics, lists; no secret, no payload."`
	Log    string `placeholder:"FILE" help:"With --bundle: the end of this log goes along."`
}

// Run makes all checks, prints what they found, and ends with 5 if something is a problem.
func (c *doctorCmd) Run(e *env, client *api.Client) error {
	roles, err := c.roles()
	switch {
	case err != nil:
		return err
	case c.Log != "" && c.Bundle == "":
		return usageError("--log goes with --bundle")
	}
	cfg := doctor.Config{Path: c.File, URL: c.URL, Client: client, Roles: roles}
	if c.Pre {
		cfg.Client = nil
	}
	cfg.Asking = c.asking()
	var hidden []config.Hidden
	cfg.Load = func(roles ...config.Role) (*config.Config, error) {
		o := c.looking(e, roles...)
		o.Hide = func(h config.Hidden) { e.stderr.hide(h); hidden = append(hidden, h) }
		o.Subscriptions = c.Subscriptions
		return config.Load(o)
	}
	report := doctor.Run(e.ctx, cfg)
	if e.ctx.Err() != nil {
		return context.Cause(e.ctx)
	}
	if err := printFindings(e, report.Findings); err != nil {
		return err
	}
	if c.Bundle != "" {
		if err := c.bundle(e, doctor.Bundle{Report: report, Client: cfg.Client, Hidden: hidden, Log: c.Log, Build: build.Read()}); err != nil {
			return err
		}
	}
	if n := report.Problems(); n > 0 {
		return &exitError{code: exitProblems, err: fmt.Errorf("%s found", problemCount(n))}
	}
	return nil
}

// bundle writes the bundle and says what is in it.
func (c *doctorCmd) bundle(e *env, b doctor.Bundle) error {
	names, missing, err := b.Write(e.ctx, c.Bundle)
	if err != nil {
		return err
	}
	fmt.Fprintf(e.Stderr, "wrote %s: %s; look through it before you give it away\n", c.Bundle, strings.Join(names, ", "))
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		fmt.Fprintf(e.Stderr, "without %s: %s\n", name, plain(missing[name]))
	}
	return nil
}

// printFindings prints findings: as a table, those that are well on a line each, and the others with their evidence and what to do, whole.
func printFindings(e *env, found []doctor.Finding) error {
	type item = doctor.Finding
	if e.output != "table" {
		return printList(e, api.Page[item]{Items: found}, func(i item) string { return i.Check + " " + i.Subject },
			column[item]{name: "severity", value: func(i item) string { return string(i.Severity) }},
			column[item]{name: "check", value: func(i item) string { return i.Check }},
			column[item]{name: "subject", value: func(i item) string { return i.Subject }},
			column[item]{name: "evidence", value: func(i item) string { return i.Evidence }},
			column[item]{name: "fix", value: func(i item) string { return i.Fix }})
	}
	for _, f := range found {
		head := fmt.Sprintf("%-8s %s", f.Severity, f.Check)
		if f.Subject != "" {
			head += "  " + plain(f.Subject)
		}
		fmt.Fprintln(e.Stdout, head)
		writeIndented(e.Stdout, plain(f.Evidence))
		if f.Fix != "" {
			fmt.Fprintln(e.Stdout, "    fix: "+plain(f.Fix)) // whole: it is there to be copied
		}
	}
	counts := map[doctor.Severity]int{}
	for _, f := range found {
		counts[f.Severity]++
	}
	fmt.Fprintf(e.Stderr, "%d ok, %d not made, %d warnings, %d problems\n", counts[doctor.OK], counts[doctor.Unknown], counts[doctor.Warning], counts[doctor.Problem])
	return nil
}

// writeIndented writes a text in lines of tableWidth, indented.
func writeIndented(w io.Writer, text string) {
	const indent = "         "
	for _, line := range wrap(text, tableWidth-len(indent)) {
		fmt.Fprintln(w, strings.TrimRight(indent+line, " "))
	}
}
