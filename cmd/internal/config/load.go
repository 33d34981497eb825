package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Role is a part that a process plays, or a command that reads a part of the file.
type Role string

const (
	RoleIntake  Role = "intake"  // takes deliveries in
	RoleStream  Role = "stream"  // runs subscriptions
	RoleTopics  Role = "topics"  // `forebay topics apply`
	RoleMigrate Role = "migrate" // `forebay migrate`
	RoleSend    Role = "send"    // `forebay send`: signs as the provider does
)

// ServeRoles returns the roles of `forebay serve`, in the order in which they are started.
func ServeRoles() []Role { return []Role{RoleStream, RoleIntake} }

// part names the part of the configuration that a path belongs to, as usedParts has them; "" is what every role uses.
func part(path string) string {
	steps := strings.Split(path, ".")
	switch {
	case steps[0] == "postgres":
		return "postgres"
	case path == "kafka.instance_id":
		return "instance"
	case steps[0] == "kafka":
		return "kafka"
	case path == "listen.intake":
		return "intake"
	case steps[0] == "intake":
		return "limits"
	case path == "listen.agents":
		return "agents"
	case strings.HasPrefix(path, "agents.secrets"):
		return "tokens"
	case len(steps) > 2 && steps[0] == "teams" && steps[2] == "destinations":
		return "destinations"
	case len(steps) > 5 && steps[2] == "subscriptions" && steps[5] == "params":
		return "destinations"
	case len(steps) > 4 && steps[2] == "sources" && strings.HasPrefix(steps[4], "secrets"):
		return "secrets"
	case len(steps) > 4 && steps[2] == "sources" && (steps[4] == "backfill" || steps[4] == "thin"):
		return "fetches"
	}
	return ""
}

// usedParts has the parts that each role uses. References in other parts are not resolved.
var usedParts = map[Role][]string{
	RoleIntake:  {"kafka", "intake", "limits", "secrets", "tokens"},
	RoleStream:  {"kafka", "instance", "postgres", "destinations", "fetches", "agents", "tokens"},
	RoleTopics:  {"kafka"},
	RoleMigrate: {"postgres"},
	RoleSend:    {"intake", "secrets"},
}

// Options say what to load and how.
type Options struct {
	// Path is the file. Required, even with Data, for it names the file in problems.
	Path string
	// Data is the file's content where it is at hand already; nil reads Path.
	Data []byte
	// TeamsDir wins over the file's teams_dir.
	TeamsDir string
	// Roles decide which references are resolved; none means all.
	Roles []Role
	// Embedded allows kafka and postgres to be left out: the caller supplies both.
	Embedded bool
	// Lookup finds environment variables; nil is os.LookupEnv.
	Lookup func(name string) (string, bool)
	// See, if set, is called with the path of every file, and of the directory of teams, just before it is read. A caller that reloads
	// watches these.
	See func(path string)
	// Hide, if set, is called with what no log may show, and what takes its place: as [Config.Hide] has it, and also where Load fails.
	Hide func(names map[string]string)
}

// uses reports whether one of the roles uses the value at a path.
func (o *Options) uses(path string) bool {
	p := part(path)
	if p == "" || len(o.Roles) == 0 {
		return true
	}
	return slices.ContainsFunc(o.Roles, func(r Role) bool { return slices.Contains(usedParts[r], p) })
}

// teamFile is one file of the teams directory.
type teamFile struct {
	Version int              `yaml:"version"`
	Teams   map[string]*Team `yaml:"teams"`
}

// Load reads, resolves, completes and checks the configuration. The error is [Problems] with everything that is
// wrong; the Config is then nil.
func Load(o Options) (*Config, error) {
	l := &loader{options: o, env: osEnvironment()}
	if o.Lookup != nil {
		l.env.lookup = o.Lookup
	}
	l.env.read = func(path string) ([]byte, error) {
		l.see(path)
		return readSmall(path)
	}
	c, problems := l.run()
	if len(problems) > 0 {
		return nil, problems
	}
	return c, nil
}

// run loads, and takes what must not be shown out of what there is to say.
func (l *loader) run() (*Config, Problems) {
	c := newConfig()
	l.load(c)
	c.hideIn(l.problems)
	c.hideIn(c.notes)
	if l.options.Hide != nil {
		l.options.Hide(c.Hide())
	}
	return c, l.problems.sorted()
}

func newConfig() *Config {
	return &Config{places: map[string]place{}, unresolved: map[string]bool{}, references: map[string]referring{}, literal: map[string]string{}}
}

// loader is one call of Load.
type loader struct {
	options  Options
	env      environment
	problems Problems // so far
}

func (l *loader) add(ps ...Problem) { l.problems = append(l.problems, ps...) }

func (l *loader) see(path string) {
	if l.options.See != nil {
		l.options.See(path)
	}
}

// load fills c, as far as there is a file to fill it from.
func (l *loader) load(c *Config) {
	if !l.decode(c, l.options.Path, l.options.Data, reflect.ValueOf(c).Elem()) {
		return
	}
	l.teams(c)
	c.fillStatic(reflect.ValueOf(c).Elem(), "")
	c.fillComputed()
	ck := &checker{c: c, options: &l.options}
	ck.run()
	l.add(ck.problems...)
}

// decode reads one file into v and notes in c where each key was written and which values are unresolved. data is the file's content;
// nil reads the file. It returns false if the file cannot be read or is not YAML; other problems leave v incomplete.
func (l *loader) decode(c *Config, file string, data []byte, v reflect.Value) bool {
	if data == nil {
		l.see(file)
		var err error
		if data, err = os.ReadFile(file); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				err = fmt.Errorf("no such file; `forebay config init %s` writes an example", file)
			}
			l.add(Problem{File: file, Message: err.Error()})
			return false
		}
	}
	node, problems := parse(file, data)
	if len(problems) > 0 {
		l.add(problems...)
		return false
	}
	if node == nil {
		l.add(Problem{File: file, Message: "is empty; `forebay config init` writes an example"})
		return false
	}
	d := &decoder{file: file, env: l.env, uses: l.options.uses, places: map[string]place{}, unresolved: c.unresolved, references: c.references, literal: c.literal}
	if node.Kind == yaml.MappingNode {
		d.value(node, "", v, field{})
	} else {
		d.problem(node, "", "expected a mapping (key: value), found %s", describe(node))
	}
	l.add(d.problems...)
	for path, at := range d.places {
		if _, ok := c.places[path]; !ok {
			c.places[path] = at
		}
	}
	return true
}

// teams adds the teams of the team files to c, if there is a directory of them: Options.TeamsDir, or else the file's teams_dir.
func (l *loader) teams(c *Config) {
	dir := l.options.TeamsDir
	if dir == "" && c.TeamsDir != "" {
		if dir = c.TeamsDir; !filepath.IsAbs(dir) {
			dir = filepath.Join(filepath.Dir(l.options.Path), dir)
		}
	}
	if c.Teams == nil {
		c.Teams = map[string]*Team{}
	}
	if dir == "" {
		return
	}
	l.see(dir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		at := c.places["teams_dir"]
		l.add(Problem{File: at.file, Line: at.line, Path: "teams_dir", Message: err.Error()})
		return
	}
	for _, e := range entries {
		ext := filepath.Ext(e.Name())
		if e.IsDir() || strings.HasPrefix(e.Name(), ".") || (ext != ".yaml" && ext != ".yml") {
			continue
		}
		l.teamFile(c, filepath.Join(dir, e.Name()))
	}
}

// teamFile adds the teams of one file to c. A team that c has already is a problem.
func (l *loader) teamFile(c *Config, file string) {
	var tf teamFile
	// It keeps this file's places apart from those of c.
	own := &Config{places: map[string]place{}, unresolved: c.unresolved, references: c.references, literal: c.literal}
	if !l.decode(own, file, nil, reflect.ValueOf(&tf).Elem()) {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(tf.Teams)) {
		path := "teams." + name
		if _, ok := c.Teams[name]; ok {
			first := c.places[path]
			l.add(Problem{File: file, Line: own.places[path].line, Path: path,
				Message: fmt.Sprintf("team %s is already in %s, line %d; a team lives in one file", name, first.file, first.line)})
			continue
		}
		c.Teams[name] = tf.Teams[name]
		for p, at := range own.places {
			if p == path || strings.HasPrefix(p, path+".") {
				c.places[p] = at
			}
		}
	}
}

// Notes returns remarks on what is allowed and has no effect.
func (c *Config) Notes() []Problem { return slices.Clone(c.notes) }

// at returns where the files set a path, or else the nearest mapping or list around it.
func (c *Config) at(path string) place {
	for p := path; p != ""; {
		if at, ok := c.places[p]; ok {
			return at
		}
		i := strings.LastIndexAny(p, ".[")
		if i < 0 {
			break
		}
		p = p[:i]
	}
	return c.places[""]
}
