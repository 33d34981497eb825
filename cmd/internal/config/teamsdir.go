package config

import (
	"net/netip"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// TeamsDir says where files with further teams are, and what these may lead to. A plain text is the path.
type TeamsDir struct {
	Path       string     `yaml:"path"`
	References References `yaml:"references"`
}

// References lists what the files of teams may lead to: their references to names of variables with {TEAM} and * and to paths of files with
// {team} and *, their allow_networks to networks.
type References struct {
	Env      []string       `yaml:"env"`
	Files    []string       `yaml:"files"`
	Networks []netip.Prefix `yaml:"networks"`
}

var teamsDirType = reflect.TypeFor[TeamsDir]()

// teamsDir decodes the directory of team files, which may be its path alone.
func (d *decoder) teamsDir(n *yaml.Node, at string, v reflect.Value) {
	if n.Kind != yaml.ScalarNode {
		d.mapping(n, at, v)
		return
	}
	dir := v.Addr().Interface().(*TeamsDir)
	d.value(n, join(at, "path"), reflect.ValueOf(&dir.Path).Elem(), field{shown: true})
}

// teamsDir checks the lists of what team files may read. Each entry must mean one team's variables or files, whatever else they are called.
func (ck *checker) teamsDir() {
	for i, pattern := range ck.c.TeamsDir.References.Env {
		at := "teams_dir.references.env[" + itoa(i) + "]"
		if why := wrongVariables(pattern); why != "" && !ck.unresolved(at) {
			ck.problem(at, "%q %s", clip(pattern), why)
		}
	}
	for i, pattern := range ck.c.TeamsDir.References.Files {
		at := "teams_dir.references.files[" + itoa(i) + "]"
		if why := wrongFiles(pattern); why != "" && !ck.unresolved(at) {
			ck.problem(at, "%q %s", clip(pattern), why)
		}
	}
}

// variables matches the names of variables with * in them.
var variables = regexp.MustCompile(`^[A-Za-z_*][A-Za-z0-9_*]{0,99}$`)

// wrongVariables says what is wrong with an entry of references.env; it is empty if nothing is.
func wrongVariables(pattern string) string {
	switch {
	case strings.Contains(pattern, "{team}"):
		return "needs {TEAM}: the team's name in capitals, with _ in the place of each -"
	case !variables.MatchString(strings.ReplaceAll(pattern, "{TEAM}", "T")):
		return "is not the name of a variable, in which {TEAM} and * may stand: TEAM_{TEAM}_*"
	}
	return ""
}

// wrongFiles says what is wrong with an entry of references.files; it is empty if nothing is. The directory {team} is the border between
// teams: were it a part of a name, /run/secrets/{team}-* of team a would have the files of team a-b.
func wrongFiles(pattern string) string {
	plain := strings.ReplaceAll(pattern, "{team}", "team")
	steps := strings.Split(pattern, "/")
	star := slices.IndexFunc(steps, func(step string) bool { return strings.Contains(step, "*") })
	switch last := lastTeam(steps); {
	case strings.Contains(pattern, "{TEAM}"):
		return "needs {team}: the team's name as it is"
	case path.Clean(pattern) != pattern:
		return "is not a path without . and ..: /run/secrets/{team}/*, or secrets/{team}/* beside this file"
	case strings.ContainsAny(plain, `?[]{}\`) || strings.Contains(pattern, "**"):
		return "may have * in it, for any part of one name, and {team}; nothing else stands for something"
	case slices.ContainsFunc(steps, func(step string) bool { return strings.Contains(step, "{team}") && step != "{team}" }):
		return "has {team} as a part of a name: it must be a directory, or team a could read what is team a-b's: /run/secrets/{team}/*"
	case star >= 0 && star < last:
		return "has * before {team}: only behind it is everything the team's own"
	}
	return ""
}

// lastTeam returns which of the steps of a path is the last that is {team}; -1 if none is.
func lastTeam(steps []string) int {
	last := -1
	for i, step := range steps {
		if step == "{team}" {
			last = i
		}
	}
	return last
}
