package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/app"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
)

// fileFlags name the configuration.
type fileFlags struct {
	File  string `short:"c" name:"config" required:"" placeholder:"FILE" env:"FOREBAY_CONFIG" help:"The configuration file."`
	Teams string `placeholder:"DIR" help:"Directory of team files, instead of the file's teams_dir."`
}

func (f fileFlags) options(e *env, roles ...config.Role) config.Options {
	return config.Options{Path: f.File, TeamsDir: f.Teams, Roles: roles, Run: true, Hide: e.stderr.hide}
}

// looking are the options for looking at the file. With roles, it is looked at as `forebay serve` does.
func (f fileFlags) looking(e *env, roles ...config.Role) config.Options {
	o := f.options(e, roles...)
	o.Look, o.Run = len(roles) == 0, false
	return o
}

type configInitCmd struct {
	File   string `arg:"" optional:"" help:"File to write; stdout without it."`
	Dev    bool   `help:"A small one that forebay dev -c takes as it is, with new secrets: one source, one destination."`
	Preset string `placeholder:"NAME" help:"With --dev: preset of the source. Default: github."`
	To     string `placeholder:"URL" help:"With --dev: URL of the destination. Default: http://127.0.0.1:8000/, where forebay listen listens."`
}

// Run writes the example configuration. It does not overwrite a file.
func (c *configInitCmd) Run(e *env) error {
	text, mode, then := config.Example(), fs.FileMode(0o644), "edit it, then run `forebay config check -c "+c.File+"`"
	switch {
	case c.Dev:
		var err error
		if text, err = config.DevExample(cmp.Or(c.Preset, "github"), cmp.Or(c.To, "http://127.0.0.1:8000/")); err != nil {
			return usageError("%w", err)
		}
		mode, then = 0o600, "run `forebay dev -c "+c.File+"`" // it has secrets
	case c.Preset != "" || c.To != "":
		return usageError("--preset and --to go with --dev")
	}
	if c.File == "" || c.File == "-" {
		_, err := e.Stdout.Write(text)
		return err
	}
	f, err := os.OpenFile(c.File, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return schemas.Errorf(schemas.Conflict, "", "%s exists; `forebay config init` without a file prints the example", c.File)
	}
	if err != nil {
		return err
	}
	if _, err := f.Write(text); err != nil {
		return errors.Join(err, f.Close())
	}
	fmt.Fprintf(e.Stderr, "wrote %s; %s\n", c.File, then)
	return f.Close()
}

// roleFlag narrows what is resolved to what a process with these roles uses.
type roleFlag struct {
	Roles []string `placeholder:"ROLE,..." help:"Resolve and check only what these roles use: intake, stream. Default: all."`
}

// subscriptionsFlag names the subscriptions that a process runs.
type subscriptionsFlag struct {
	Subscriptions []string `placeholder:"TEAM.SUBSCRIPTION,..." help:"Run only these, which have one ledger; * stands for any part of a name. Default: all that have no postgres of their own."`
}

// roles returns the roles that were given, none if none was. A role that this flag does not know is an error.
func (r roleFlag) roles() ([]config.Role, error) {
	var roles []config.Role
	for _, name := range r.Roles {
		switch name {
		case string(config.RoleIntake), string(config.RoleStream):
		case "console":
			return nil, usageError("role %q is not one of intake, stream: both serve the console and the operator API, at listen.operator", name)
		default:
			return nil, usageError("role %q is not one of intake, stream", name)
		}
		roles = append(roles, config.Role(name))
	}
	return roles, nil
}

type configCheckCmd struct {
	fileFlags
	roleFlag
	subscriptionsFlag
	Sample bool `help:"Also try the real payloads of the sources' presets (those of forebay send --sample): match, when and the parameters of each action."`
}

// Run prints everything that is wrong with the file: what cannot be read, or else what the parts of a process would refuse when they
// are built, or else what fails on samples.
func (c *configCheckCmd) Run(e *env) error {
	roles, err := c.roles()
	if err != nil {
		return err
	}
	if c.Sample && len(roles) > 0 && !(slices.Contains(roles, config.RoleIntake) && slices.Contains(roles, config.RoleStream)) {
		return usageError("--sample needs the sources and the destinations: leave --roles out")
	}
	o := c.looking(e, roles...)
	o.Subscriptions = c.Subscriptions
	cfg, err := config.Load(o)
	problems, ok := errors.AsType[config.Problems](err)
	switch {
	case err == nil:
		problems = app.Check(cfg, roles)
	case !ok: // such as a file that does not exist
		return err
	}
	var tried app.SamplesChecked
	if c.Sample && len(problems) == 0 {
		if tried, err = app.CheckSamples(cfg); err != nil {
			return err
		}
		problems = tried.Problems
		for _, n := range tried.Notes {
			fmt.Fprintln(e.Stderr, "note:", n)
		}
	}
	if e.output == "table" || e.output == "wide" {
		for _, p := range problems {
			fmt.Fprintln(e.Stdout, p)
		}
	} else if err := listProblems(e, problems); err != nil {
		return err
	}
	if len(problems) > 0 {
		return &exitError{code: exitProblems, err: fmt.Errorf("%s in %s", problemCount(len(problems)), c.File)}
	}
	for _, n := range cfg.Notes() {
		fmt.Fprintln(e.Stderr, "note:", n)
	}
	if c.Sample {
		fmt.Fprintf(e.Stderr, "actions rendered for samples: %d\n", tried.Rendered)
	}
	fmt.Fprintf(e.Stderr, "%s is fine\n", c.File)
	return nil
}

// problemCount returns "1 problem", "2 problems".
func problemCount(n int) string {
	if n == 1 {
		return "1 problem"
	}
	return strconv.Itoa(n) + " problems"
}

// listProblems prints the problems in a form other than a table.
func listProblems(e *env, problems config.Problems) error {
	return printList(e, api.Page[config.Problem]{Items: problems}, config.Problem.String,
		column[config.Problem]{name: "line", value: func(p config.Problem) string { return strconv.Itoa(p.Line) }})
}

type configShowCmd struct {
	fileFlags
	roleFlag
}

// Run prints the configuration with all defaults and without secrets, as YAML unless -o asks for another form.
func (c *configShowCmd) Run(e *env) error {
	roles, err := c.roles()
	if err != nil {
		return err
	}
	cfg, err := config.Load(c.looking(e, roles...))
	if err != nil {
		return err
	}
	text, err := cfg.YAML()
	if err != nil {
		return err
	}
	value, err := cfg.Value()
	if err != nil {
		return err
	}
	if e.output == "yaml" {
		_, err = e.Stdout.Write(text)
		return err
	}
	return printOne(e, value, c.File, func(w io.Writer) { fmt.Fprint(w, string(text)) })
}

type configSchemaCmd struct{}

func (c *configSchemaCmd) Run(e *env) error {
	schema, err := config.Schema()
	if err != nil {
		return err
	}
	_, err = e.Stdout.Write(schema)
	return err
}
