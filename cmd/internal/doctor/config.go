package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/forebay-io/forebay/cmd/internal/app"
	"github.com/forebay-io/forebay/cmd/internal/config"
)

// load reads the file: whole, and where that fails what the brokers and the ledgers need of it, since one secret that is missing should not
// hide what else is wrong.
func (d *doctor) load() {
	d.parsed, d.unread = d.Load(d.Roles...)
	if d.kafka, d.postgres = d.parsed, d.parsed; d.parsed != nil {
		return
	}
	if c, err := d.Load(config.RoleTopics); err == nil {
		d.kafka = c
	}
	if c, err := d.Load(config.RoleMigrate); err == nil {
		d.postgres = c
	}
}

// roles are the roles that are looked at.
func (d *doctor) roles() []config.Role {
	if len(d.Roles) == 0 {
		return []config.Role{config.RoleIntake, config.RoleStream, config.RoleTopics}
	}
	return d.Roles
}

// has reports whether a role is looked at.
func (d *doctor) has(role config.Role) bool { return slices.Contains(d.roles(), role) }

// config says what is wrong with the file, as `forebay config check` does.
func (d *doctor) config(context.Context) (found []Finding) {
	run := d.mend()
	var problems config.Problems
	if d.parsed != nil {
		problems = app.Check(d.parsed, withoutTopics(d.Roles))
	} else if list, ok := errors.AsType[config.Problems](d.unread); ok {
		problems = list
	} else {
		return []Finding{problem(d.Path, d.unread.Error(), run)}
	}
	for _, p := range problems {
		found = append(found, problem(place(p), evidence(p), run))
	}
	if d.parsed == nil {
		return found
	}
	for _, n := range d.parsed.Notes() {
		found = append(found, warning(place(n), evidence(n), ""))
	}
	if len(problems) == 0 {
		sources, subscriptions := 0, 0
		for _, t := range d.parsed.Teams {
			sources, subscriptions = sources+len(t.Sources), subscriptions+len(t.Subscriptions)
		}
		found = append([]Finding{ok(d.Path, "teams: %d, sources: %d, destinations: %d, subscriptions: %d", len(d.parsed.Teams), sources, len(d.parsed.AllDestinations()), subscriptions)}, found...)
	}
	return found
}

// withoutTopics leaves out the role of commands, which runs nothing.
func withoutTopics(roles []config.Role) []config.Role {
	return slices.DeleteFunc(slices.Clone(roles), func(r config.Role) bool { return r == config.RoleTopics })
}

// place is FILE:LINE of a problem.
func place(p config.Problem) string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// evidence is PATH: MESSAGE of a problem; one with the file as a whole has no path.
func evidence(p config.Problem) string {
	if p.Path == "" {
		return p.Message
	}
	return p.Path + ": " + p.Message
}

// mend is the command that goes on from a file with problems: it writes one where there is none, and else says what is wrong with it. For
// stdin, which is not read, it names a file.
func (d *doctor) mend() string {
	_, err := os.Stat(d.Path)
	switch none := errors.Is(err, fs.ErrNotExist); {
	case none && d.Path == "-":
		return "forebay doctor -c FILE"
	case none:
		return "forebay config init " + d.Path
	}
	return "forebay config check -c " + d.Path
}

// notRead is the finding of a check that needs what cannot be read.
func (d *doctor) notRead() []Finding {
	return []Finding{unknown("", "not made: the configuration cannot be read", d.mend())}
}
