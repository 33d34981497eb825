package config

import (
	"maps"
	"path/filepath"
	"strings"

	"github.com/forebay-io/forebay/schemas/expression"
)

// Start is [Load] for a process that starts: a team whose file has problems, or refers to what has, stays out, and the others run. left has the
// problems of the files that were left out; nil if none was. Where nothing is left, or the main file has problems, Start fails.
func Start(o Options) (read *Config, left Problems, err error) {
	read, left, err = (&Config{}).reload(o)
	if err == nil && len(left) > 0 && len(read.Teams) == 0 {
		return nil, nil, left.sorted()
	}
	return read, left, err
}

// LeftOut reports whether the files have more of a team than c: its file has problems, and none was read before, or Take has left out what is new.
// What c has not of the team is then not gone.
func (c *Config) LeftOut(team string) bool { return c.leftOut[team] }

// Reload is [Load] for a process that runs c. A team whose file has problems, or refers to what has, keeps the file that c was read from, or stays
// out if c has none of it; the other teams get their changes. Of what a kept file refers to, it gets what is new as long as that fits. kept has
// the problems of the files that were not taken; nil if all were.
//
// A shared destination that the main file takes from a team is taken away, also where the team's file still needs it: see [Config.without]. If the
// main file itself has problems, or allows less than the sources and destinations of a kept file need, Reload fails. The error is that of Load: all
// problems of the files as they are.
//
// Large changes of teams' files are left to the next call: see [Config.Later].
func (c *Config) Reload(o Options) (read *Config, kept Problems, err error) {
	expression.Forget()
	o.again = true
	later := c.later(&o)
	o.kept = maps.Clone(later)
	if read, kept, err = c.reload(o); err != nil && len(later) > 0 { // for want of what was left, perhaps
		later, o.kept = nil, nil
		read, kept, err = c.reload(o)
	}
	if err == nil && len(later) > 0 {
		c.left++ // also where read is not taken after all: the next call takes more
		read.left = c.left
	}
	return read, kept, err
}

// reload is Reload that reads, in the place of the files of o.kept, what that has.
func (c *Config) reload(o Options) (read *Config, kept Problems, err error) {
	read, first := loadAll(o)
	judged := read.teamFiles
	if o.kept == nil {
		o.kept = map[string]keptFile{}
	}
	defer func() {
		if err == nil {
			read.judged = judged
		} else {
			c.judged = judged
		}
	}()
	for problems := first; len(problems) > 0; read, problems = loadAll(o) {
		changed := map[string]bool{} // files of which something else is read the next time
		for _, p := range problems {
			was, again := o.kept[p.File]
			switch {
			case p.File == "" || filepath.Clean(p.File) == filepath.Clean(o.Path): // the main file's may come of the others: that there is no such team
			case !again:
				o.kept[p.File] = keptFile{teamText: c.teamFiles[p.File]}
				changed[p.File] = true
				kept = append(kept, p)
			case changed[p.File] && !was.whole:
				kept = append(kept, p)
			case !was.whole && was.data != nil:
				was.whole = true
				o.kept[p.File] = was
				changed[p.File] = true
			}
		}
		if len(changed) > 0 {
			continue
		}
		if read == nil || !read.without(o, problems) {
			return nil, nil, first
		}
		return read, kept, nil
	}
	return read, kept, nil
}

// without bars the subscriptions of kept files that have problems, such as that a shared destination was taken from their team, and reports whether
// the configuration can be run then. More than a quota allows goes on. A problem of a source or a destination, such as a reference that may not be
// followed any more, is none to go on with: a slip in the main file would have every team's deliveries refused.
func (c *Config) without(o Options, problems Problems) bool {
	for _, p := range problems {
		if _, kept := o.kept[p.File]; !kept {
			return false
		}
		steps := strings.Split(p.Path, ".")
		if len(steps) < 3 || steps[0] != "teams" || c.Teams[steps[1]] == nil {
			return false
		}
		name := ""
		if len(steps) > 3 {
			name, _, _ = strings.Cut(steps[3], "[")
		}
		switch part := steps[2]; {
		case name == "" && (part == "sources" || part == "subscriptions"): // more than its quota
		case part == "subscriptions":
			c.barred["teams."+steps[1]+".subscriptions."+name] = p.Message
		default:
			return false
		}
	}
	return o.Check == nil || len(o.Check(c)) == 0
}
