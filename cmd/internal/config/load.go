package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/forebay-io/forebay/sinks/template"
)

// Role is a part that a process plays, or a command that reads a part of the file.
type Role string

const (
	RoleIntake  Role = "intake"  // takes deliveries in
	RoleStream  Role = "stream"  // runs subscriptions
	RoleTopics  Role = "topics"  // `forebay topics apply`, the admin of kafka.roles
	RoleMigrate Role = "migrate" // `forebay migrate`
	RoleTokens  Role = "tokens"  // `forebay tokens`, which asks one ledger
	RoleSend    Role = "send"    // `forebay send`: signs as the provider does
	RoleACLs    Role = "acls"    // `forebay acls export`: needs no secret
	RoleCatalog Role = "catalog" // `forebay catalog export`: likewise
	RoleSchemas Role = "schemas" // `forebay schemas push`
)

// ServeRoles returns the roles of `forebay serve`, in the order in which they are started.
func ServeRoles() []Role { return []Role{RoleStream, RoleIntake} }

// part names the part of the configuration that a path belongs to, as usedParts has them; "" is what every role uses.
func part(path string) string {
	steps := strings.Split(path, ".")
	switch {
	case steps[0] == "postgres", steps[0] == "registry", steps[0] == "alerts":
		return steps[0]
	case path == "kafka.instance_id":
		return "instance"
	case len(steps) > 2 && steps[0] == "kafka" && steps[1] == "roles":
		return "kafka." + steps[2]
	case steps[0] == "kafka":
		return "kafka"
	case path == "intake.public_url":
		return "" // what anybody signs or shows of a source may have it
	case path == "listen.intake":
		return "intake"
	case steps[0] == "intake":
		return "limits"
	case steps[0] == "operator", path == "listen.operator", path == "listen.health":
		return "operator"
	case path == "listen.agents":
		return "agents"
	case strings.HasPrefix(path, "agents.secrets"):
		return "tokens"
	case len(steps) > 2 && steps[0] == "destinations" && strings.HasPrefix(steps[2], "teams"):
		return "" // the checks of any process need to know who may use it
	case steps[0] == "destinations", len(steps) > 2 && steps[0] == "teams" && steps[2] == "destinations":
		return "destinations"
	case len(steps) > 5 && steps[2] == "subscriptions" && steps[5] == "params":
		return "destinations"
	case len(steps) > 4 && steps[2] == "sources" && strings.HasPrefix(steps[4], "secrets"):
		return "secrets"
	case len(steps) > 4 && steps[2] == "sources" && (steps[4] == "first_filter" || steps[4] == "reconcile"):
		return "limits"
	case len(steps) > 4 && steps[2] == "sources" && (steps[4] == "backfill" || steps[4] == "thin"):
		return "fetches"
	case len(steps) > 4 && steps[2] == "sources" && steps[4] == "json_schema":
		return "schemas"
	}
	return ""
}

// ownLedger returns the subscription to whose own postgres a path belongs, as TEAM/SUBSCRIPTION; empty if it belongs to none.
func ownLedger(path string) string {
	steps := strings.Split(path, ".")
	if len(steps) > 4 && steps[0] == "teams" && steps[2] == "subscriptions" && steps[4] == "postgres" {
		return steps[1] + "/" + steps[3]
	}
	return ""
}

// usedParts has the parts that each role uses. References in other parts are not resolved.
var usedParts = map[Role][]string{
	RoleIntake:  {"kafka", "kafka.intake", "intake", "limits", "secrets", "tokens", "schemas", "registry", "operator", "alerts"},
	RoleStream:  {"kafka", "kafka.stream", "instance", "postgres", "destinations", "fetches", "agents", "tokens", "operator", "alerts"},
	RoleTopics:  {"kafka", "kafka.admin"},
	RoleMigrate: {"postgres"},
	RoleTokens:  {"postgres"},
	RoleSend:    {"intake", "secrets"},
	RoleACLs:    {},
	RoleCatalog: {"schemas"},
	RoleSchemas: {"schemas", "registry"},
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
	// Look takes kafka.embedded and postgres.embedded as they are written: the caller looks at the configuration, and runs nothing of it.
	Look bool
	// Run says that the caller runs the configuration. A subscription to a source that another team does not share is then none of the
	// problems, but does not run: see [Config.Barred].
	Run bool
	// Subscriptions are those that the stream role runs, or whose ledgers are migrated: TEAM/SUBSCRIPTION, in which * stands for any part of
	// a name. None: the stream role runs those without a ledger of their own, and all ledgers are migrated.
	Subscriptions []string
	// Lookup finds environment variables; nil is os.LookupEnv.
	Lookup func(name string) (string, bool)
	// See, if set, is called with the path of every file, and of the directory of teams, just before it is read. A caller that reloads
	// watches these.
	See func(path string)
	// Shared, if set, is called with what the teams share by the files, also where Load fails: what a team takes back must not wait until
	// another has mended its file.
	Shared func(Shares)
	// Hide, if set, is called with what no log may show, and what takes its place: as [Config.Hide] has it, and also where Load fails.
	Hide func(Hidden)

	// Check, if set, finds problems in a configuration that has none of its own, such as what cannot be built of it.
	Check func(c *Config) Problems

	kept    map[string]keptFile // by path, what is read in the place of a file of a team
	again   bool                // for a process that runs: nobody reads notes
	notMain bool                // all of Subscriptions have ledgers of their own: that of the top of the file is not opened
}

// uses reports whether one of the roles uses the value at a path.
func (o *Options) uses(path string) bool {
	if of := ownLedger(path); of != "" {
		return o.usesLedgerOf(of)
	}
	p := part(path)
	if p == "postgres" && o.notMain && path != "postgres.statements" {
		return false
	}
	if p == "" || len(o.Roles) == 0 {
		return true
	}
	return slices.ContainsFunc(o.Roles, func(r Role) bool { return slices.Contains(usedParts[r], p) })
}

// usesLedgerOf reports whether one of the roles uses the own ledger of a subscription, TEAM/SUBSCRIPTION.
func (o *Options) usesLedgerOf(of string) bool {
	switch {
	case o.Embedded:
		return false
	case len(o.Subscriptions) > 0:
		return o.chooses(of) && (len(o.Roles) == 0 || slices.ContainsFunc(o.Roles, func(r Role) bool { return slices.Contains(usedParts[r], "postgres") }))
	}
	return len(o.Roles) == 0 || slices.Contains(o.Roles, RoleMigrate)
}

// chooses reports whether Subscriptions have a subscription, TEAM/SUBSCRIPTION.
func (o *Options) chooses(of string) bool {
	return slices.ContainsFunc(o.Subscriptions, func(pattern string) bool { return chosenBy(pattern, of) })
}

// teamText is a team's file as it was read without problems.
type teamText struct {
	data     []byte            // nil: there is none
	followed map[string]string // what its references led to, by the text between their braces
}

// keptFile is what is read in the place of a team's file: nothing, where it has no data.
type keptFile struct {
	teamText
	whole bool // with what its references led to; else these are followed again, as far as that leads somewhere
}

// teamFile is one file of the teams directory.
type teamFile struct {
	Version int              `yaml:"version"`
	Teams   map[string]*Team `yaml:"teams"`
}

// Load reads, resolves, completes and checks the configuration. The error is [Problems] with everything that is
// wrong; the Config is then nil.
func Load(o Options) (*Config, error) {
	c, problems := loadAll(o)
	if len(problems) > 0 {
		return nil, problems
	}
	return c, nil
}

// loadAll is Load that returns the configuration with problems, too, as far as it was read.
func loadAll(o Options) (*Config, Problems) {
	l := &loader{options: o, env: osEnvironment()}
	if o.Lookup != nil {
		l.env.lookup = o.Lookup
	}
	l.env.read = func(path string) ([]byte, error) {
		l.options.see(path)
		return readSmall(path)
	}
	l.env.readIn = func(dir, path string) ([]byte, error) {
		l.options.see(filepath.Join(dir, path))
		return readBelow(dir, path)
	}
	return l.run()
}

// run loads, and takes what must not be shown out of what there is to say.
func (l *loader) run() (*Config, Problems) {
	if len(l.options.Subscriptions) > 0 {
		l.options.notMain = l.chooseOwn()
	}
	c := newConfig()
	c.chosen, c.oneLedger = l.options.Subscriptions, l.options.Embedded
	c.dir = filepath.Dir(l.options.Path)
	l.env.dir = c.dir
	c.env = environment{lookup: l.env.lookup, read: readSmall, dir: c.dir}
	l.load(c)
	if len(l.problems) == 0 && l.options.Check != nil {
		l.add(l.options.Check(c)...)
	}
	c.hideIn(l.problems)
	c.hideIn(c.notes)
	if l.options.Hide != nil {
		l.options.Hide(c.Hide())
	}
	if l.options.Shared != nil {
		l.options.Shared(Shares{c, l.options.Path, l.problems})
	}
	return c, l.problems.sorted()
}

func newConfig() *Config {
	return &Config{places: map[string]place{}, unresolved: map[string]bool{}, references: map[string]referring{}, literal: map[literal]string{}, barred: map[string]string{}, teamFiles: map[string]teamText{}, leftOut: map[string]bool{}}
}

// loader is one call of Load.
type loader struct {
	options  Options
	env      environment
	problems Problems // so far
	mains    []string // the variables that the main file refers to
}

func (l *loader) add(ps ...Problem) { l.problems = append(l.problems, ps...) }

func (o *Options) see(path string) {
	if o.See != nil {
		o.See(path)
	}
}

// load fills c, as far as there is a file to fill it from.
func (l *loader) load(c *Config) {
	if !l.decode(c, l.options.Path, l.options.Data, l.env, reflect.ValueOf(c).Elem()) {
		return
	}
	l.teams(c)
	c.uses = sync.OnceValue(c.allUses)
	c.fillStatic(reflect.ValueOf(c).Elem(), "")
	c.fillComputed()
	c.ours = c.chosenLedger()
	ck := &checker{c: c, options: &l.options, questions: map[string]*template.Set{}}
	ck.run()
	l.add(ck.problems...)
}

// decode reads one file into v, and notes in c where each key was written and what its references are. data is the file's content; nil
// reads the file. env resolves the references. It returns false if the file cannot be read, is not YAML or is empty; other problems leave
// v incomplete. All problems go to l.
func (l *loader) decode(c *Config, file string, data []byte, env environment, v reflect.Value) bool {
	if data == nil {
		l.options.see(file)
		var err error
		if data, err = readMain(file, l.options.Embedded); err != nil {
			l.add(Problem{File: file, Message: err.Error()})
			return false
		}
	}
	if env.border == nil {
		c.teamFiles[file] = teamText{data: data}
		for _, m := range envReference.FindAllSubmatch(data, -1) {
			l.mains = append(l.mains, string(m[1]))
		}
	}
	node, problems := parse(file, data)
	if len(problems) > 0 {
		l.add(problems...)
		return false
	}
	if node == nil {
		is := "is empty"
		if string(bytes.TrimSpace(data)) == "\ufeff" {
			is = "has nothing but a byte order mark, which editors do not show"
		}
		l.add(Problem{File: file, Message: is + "; `forebay config init` writes an example"})
		return false
	}
	d := &decoder{file: file, env: env, uses: l.options.uses, places: map[string]place{}, unresolved: c.unresolved, references: c.references, literal: c.literal}
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

// readMain reads the file that a command line names, for forebay dev if that brings the servers. Its errors do not name it: the problem that
// they become does.
func readMain(path string, embedded bool) ([]byte, error) {
	data, err := readPlain(func(flag int) (*os.File, error) { return os.OpenFile(path, flag, 0) }, "it", maxFile)
	other, ok := errors.AsType[*notPlainError](err)
	switch {
	case errors.Is(err, fs.ErrNotExist) && path == "-":
		return nil, errors.New("stdin is not read: write the configuration to a file, and name that")
	case errors.Is(err, fs.ErrNotExist) && embedded:
		return nil, fmt.Errorf("no such file; `forebay config init --dev --preset github --to URL %s` writes one", path)
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("no such file; `forebay config init %s` writes an example", path)
	case ok && other.dir:
		return nil, isDirectory(path)
	case ok:
		return nil, errors.New("is a pipe or a device, not a file: write the configuration to a file, and name that")
	}
	return data, err
}

// isDirectory is the error of a directory in the place of the file. It names a file in it that may have been meant.
func isDirectory(path string) error {
	for _, pattern := range []string{"forebay.y*ml", "*.yaml", "*.yml"} {
		if found, _ := filepath.Glob(filepath.Join(path, pattern)); len(found) == 1 { // the patterns are well-formed
			return fmt.Errorf("is a directory, not a file; did you mean %s?", found[0])
		}
	}
	return fmt.Errorf("is a directory, not a file: name the file in it (a directory of team files goes with --teams)")
}

// teams adds the teams of the team files to c, if there is a directory of them: Options.TeamsDir, or else the file's teams_dir.
func (l *loader) teams(c *Config) {
	dir := c.teamsDirOf(&l.options)
	if c.Teams == nil {
		c.Teams = map[string]*Team{}
	}
	if dir == "" {
		return
	}
	l.options.see(dir)
	files, err := teamFiles(dir)
	if err != nil {
		at := c.at("teams_dir")
		l.add(Problem{File: at.file, Line: at.line, Path: "teams_dir", Message: err.Error()})
		return
	}
	main := c.at("teams_dir")
	b := border{teams: keys(c.Teams), allowed: c.TeamsDir.References, mains: l.mains, main: fmt.Sprintf("%s:%d", main.file, main.line), dir: cmp.Or(c.TeamsDir.Path, dir)}
	if b.files, err = filepath.Abs(dir); err == nil {
		b.allowed.Files, err = whole(c.dir, b.allowed.Files)
	}
	if err != nil {
		l.add(Problem{File: main.file, Line: main.line, Path: "teams_dir", Message: err.Error()})
		return
	}
	for _, file := range files {
		b.teams = append(b.teams, teamOf(file))
	}
	for _, file := range files {
		b.team = teamOf(file)
		l.teamFile(c, dir, file, b)
	}
}

// teamsDirOf returns the directory of team files; empty if there is none.
func (c *Config) teamsDirOf(o *Options) string {
	if o.TeamsDir == "" && c.TeamsDir.Path != "" {
		return pathFrom(c.dir, c.TeamsDir.Path)
	}
	return o.TeamsDir
}

// whole returns patterns of paths that are relative to a directory as whole ones.
func whole(dir string, patterns []string) (list []string, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	for _, p := range patterns {
		list = append(list, pathFrom(dir, p))
	}
	return list, nil
}

// teamFiles returns the names of the files in the directory of teams.
func teamFiles(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		ext := filepath.Ext(e.Name())
		if !e.IsDir() && !strings.HasPrefix(e.Name(), ".") && (ext == ".yaml" || ext == ".yml") {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// teamOf returns the team of a file of the directory of teams, by the file's name.
func teamOf(name string) string { return strings.TrimSuffix(name, filepath.Ext(name)) }

// teamFile adds the team of one file to c. Any other team in it is a problem, as is one that c has already: who may name a file decides whose
// topics, shares and references it has, whatever is in it.
func (l *loader) teamFile(c *Config, dir, name string, b border) {
	file := filepath.Join(dir, name)
	was, kept := l.options.kept[file]
	if kept && was.data == nil {
		c.leftOut[b.team] = true
		return
	}
	data := was.data
	if !validName(b.team) {
		l.add(Problem{File: file, Message: "the name of a team's file is that of its team, which must match [a-z0-9-]{1,40}: acme.yaml has team acme"})
		return
	}
	if !kept {
		l.options.see(file)
		var err error
		if data, err = readInside(dir, name, maxTeamFile); err != nil {
			l.add(Problem{File: file, Message: err.Error()})
			return
		}
	}
	var tf teamFile
	own := newConfig() // what is known of this file, apart from what c has of others
	env := l.env
	env.border, env.followed, env.before, env.asBefore, env.room = &b, map[string]string{}, was.followed, was.whole, new(maxReferences)
	c.teamFiles[file] = teamText{data, env.followed}
	read := l.decode(own, file, data, env, reflect.ValueOf(&tf).Elem())
	maps.Copy(c.literal, own.literal)
	for path, r := range own.references {
		if c.Teams[b.team] != nil || !strings.HasPrefix(path, "teams."+b.team+".") {
			path = file + ": " + path // of nobody: another team's, or one that is there already, keeps its own
		}
		c.references[path] = r
	}
	maps.Copy(c.unresolved, own.unresolved)
	if !read {
		return
	}
	for _, team := range slices.Sorted(maps.Keys(tf.Teams)) {
		l.addTeam(c, own, team, tf.Teams[team], b.team)
	}
}

// addTeam adds a team to c that is in the file of team fileOf, with the places that own has of it.
func (l *loader) addTeam(c, own *Config, name string, t *Team, fileOf string) {
	path := "teams." + name
	at := own.places[path]
	if first := c.places[path]; c.Teams[name] != nil {
		l.add(Problem{File: at.file, Line: at.line, Path: path,
			Message: fmt.Sprintf("team %s is already in %s, line %d; a team lives in one file", name, first.file, first.line)})
		return
	}
	if name != fileOf {
		l.add(Problem{File: at.file, Line: at.line, Path: path, Message: fmt.Sprintf("this is the file of team %s, by its name: team %s lives in %s.yaml", fileOf, name, name)})
		return
	}
	c.Teams[name] = t
	for p, at := range own.places {
		if p == path || strings.HasPrefix(p, path+".") {
			c.places[p] = at
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
