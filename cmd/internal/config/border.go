package config

import (
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"
)

// border is what a team's file may lead to. Whoever writes the file is not trusted with what else the process can read, its own secrets
// and those of other teams, nor with what else it can call: what listens on loopback and in its networks trusts it.
type border struct {
	team    string
	teams   []string // of all files
	allowed References
	mains   []string // the variables that the main file refers to
	main    string   // where the main file has teams_dir: forebay.yaml:12
	dir     string   // the directory of team files, as the main file has it
	files   string   // the same as a whole path: the paths in these are relative to it
}

// may returns an error if a reference is beyond the border.
func (b *border) may(scheme, name string) error {
	if scheme == "env" {
		return b.variable(name)
	}
	_, _, err := b.file(name)
	return err
}

// upper returns what {TEAM} stands for.
func upper(team string) string { return strings.ToUpper(strings.ReplaceAll(team, "-", "_")) }

// envReference finds references to variables in a file, also in its comments.
var envReference = regexp.MustCompile(`\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}`)

// processVariables are those that the process and its libraries read by themselves. Whoever may name a file, and with it a team, would choose
// one of them with a pattern such as {TEAM}_*.
var processVariables = regexp.MustCompile(`^(FOREBAY|AWS|AZURE|GOOGLE|GCP|CLOUDSDK|KUBERNETES|KAFKA|POSTGRES|VAULT|OTEL|SSL|HTTPS?|NO|GO|XDG|LD|SYSTEMD|JAVA|NODE)_|^PG[A-Z]+$`)

// variable returns an error if the file may not read an environment variable. TEAM_{TEAM}_* of team a matches TEAM_A_B_TOKEN, which is team
// a-b's: a variable that several teams match belongs to the one with the longest name, and to none if two are as long. What the main file
// refers to, and what the process reads by itself, is for no team, unless the main file lists its very name.
func (b *border) variable(name string) error {
	found := slices.IndexFunc(b.allowed.Env, func(p string) bool { return matches(strings.ReplaceAll(p, "{TEAM}", upper(b.team)), name) })
	if found < 0 || !envForm.MatchString(name) {
		return b.refused("env", "${env:"+name+"}", b.allowed.Env, strings.NewReplacer("{TEAM}", upper(b.team)), "TEAM_{TEAM}_*")
	}
	if slices.Contains(b.allowed.Env, name) { // behind a pattern, too
		return nil
	}
	if slices.Contains(b.mains, name) || processVariables.MatchString(name) {
		return fmt.Errorf("${env:%s} is the process's own, and for no team: use another name, such as TEAM_%s_TOKEN", name, upper(b.team))
	}
	if !strings.Contains(b.allowed.Env[found], "{TEAM}") {
		return nil // the main file has it for every team
	}
	for _, other := range b.teams {
		if other == b.team || len(other) < len(b.team) {
			continue
		}
		for _, p := range b.allowed.Env {
			if strings.Contains(p, "{TEAM}") && matches(strings.ReplaceAll(p, "{TEAM}", upper(other)), name) {
				return fmt.Errorf("${env:%s} also matches the pattern of team %s, whose name is at least as long: it belongs to that team, or to neither. Rename the variable of team %s", name, other, b.team)
			}
		}
	}
	return nil
}

// file returns where the file of a reference is: its path below a directory that no link may lead out of. The directory is empty if the
// main file has the very path. The error says why the reference is refused.
func (b *border) file(written string) (dir, below string, err error) {
	name := pathFrom(b.files, written)
	if path.Clean(name) != name {
		return "", "", fmt.Errorf("${file:%s}: in a team's file a whole path has neither . nor .. in it", written)
	}
	for _, pattern := range b.allowed.Files {
		own := strings.ReplaceAll(pattern, "{team}", b.team)
		if !matches(own, name) {
			continue
		}
		if dir = closed(pattern, b.team); dir == "" {
			return "", name, nil
		}
		return dir, strings.TrimPrefix(strings.TrimPrefix(name, dir), "/"), nil
	}
	return "", "", b.refused("files", "${file:"+written+"}", b.allowed.Files, strings.NewReplacer("{team}", b.team), "/run/secrets/{team}/*")
}

// closed returns the directory of a pattern that no link may lead out of: that of the team, else the one above the first *. It is empty for
// one file that the main file names.
func closed(pattern, team string) string {
	steps := strings.Split(pattern, "/")
	end := lastTeam(steps) + 1
	if end == 0 {
		end = slices.IndexFunc(steps, func(step string) bool { return strings.Contains(step, "*") })
	}
	if end < 0 || end == len(steps) {
		return ""
	}
	return "/" + strings.TrimPrefix(strings.ReplaceAll(strings.Join(steps[:end], "/"), "{team}", team), "/")
}

// matches reports whether a name is meant by a pattern, whose * stands for any part of it up to a slash. Patterns of a wrong form match nothing.
func matches(pattern, name string) bool {
	if strings.ContainsAny(pattern, `?[]\{}`) {
		return false
	}
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// refused is the error for a reference that is in no list. It says what the file may read, or which line lets it read something.
func (b *border) refused(key, reference string, allowed []string, own *strings.Replacer, line string) error {
	if len(allowed) == 0 {
		return fmt.Errorf("a team's file may not read %s: the main file (%s) allows it nothing; `teams_dir: {path: %s, references: {%s: [%q]}}` there lets each team read its own",
			reference, b.main, b.dir, key, line)
	}
	return fmt.Errorf("team %s may not read %s, only %s: use such a name, or have teams_dir.references.%s in the main file (%s) changed",
		b.team, reference, own.Replace(strings.Join(allowed, ", ")), key, b.main)
}

// network returns an error if allow_networks of the file may not list a network: all of it must be in one that the main file lists.
func (b *border) network(p netip.Prefix) error {
	if slices.ContainsFunc(b.allowed.Networks, func(of netip.Prefix) bool { return inside(p, of) }) {
		return nil
	}
	if len(b.allowed.Networks) == 0 {
		return fmt.Errorf("a team's file may not allow %s: the main file (%s) lets it allow no network; `teams_dir: {path: %s, references: {networks: [%q]}}` there lets every team's file do so",
			p, b.main, b.dir, p)
	}
	return fmt.Errorf("team %s may not allow %s, only networks inside %s: allow one of those, or have teams_dir.references.networks in the main file (%s) changed",
		b.team, p, listed(b.allowed.Networks), b.main)
}

func listed(networks []netip.Prefix) string {
	var texts []string
	for _, p := range networks {
		texts = append(texts, p.String())
	}
	return strings.Join(texts, ", ")
}

// inside reports whether all of p is in the network of. IPv4-mapped networks count as IPv4, as they do where addresses are judged.
func inside(p, of netip.Prefix) bool {
	p, of = unmapped(p), unmapped(of)
	return p.IsValid() && of.IsValid() && of.Bits() <= p.Bits() && of.Contains(p.Addr())
}

func unmapped(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}
