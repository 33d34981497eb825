package config

import (
	"bytes"
	"cmp"
	"path/filepath"
	"slices"
	"strings"
)

// atOnce is how much of changed files of teams a reload takes together with everything else, in bytes: half a second of compiling at most, see
// maxExpressions.
const atOnce = 32 << 10

// Later reports whether Reload has left changes of teams' files for its next call, which is due at once.
func (c *Config) Later() bool { return c.left > 0 }

// later returns the files of teams whose changes the next reload leaves to the one after it, with what is read in their place: the largest, where all
// together are more than atOnce. So what is much to compile keeps nobody waiting who has changed something else at the same time. The one after
// takes maxTeamFile, and then each twice as much as the one before: no file is left for long. With another main file nothing is left, for both may
// belong together.
func (c *Config) later(o *Options) map[string]keptFile {
	main := o.Data
	if main == nil {
		main, _ = readMain(o.Path, o.Embedded) // what is wrong with a file, the reload says
	}
	dir := c.teamsDirOf(o)
	if dir == "" || !bytes.Equal(main, c.judged[o.Path].data) {
		return nil
	}
	type change struct {
		file string
		size int
	}
	var changed []change
	names, _ := teamFiles(dir)
	for _, name := range names {
		file := filepath.Join(dir, name)
		o.see(file)
		if c.teamFiles[file].data == nil && c.Teams[teamOf(name)] != nil {
			continue // the team's file has another name now
		}
		if data, err := readInside(dir, name, maxTeamFile); err == nil && validName(teamOf(name)) && !bytes.Equal(data, c.judged[file].data) {
			changed = append(changed, change{file, len(data)})
		}
	}
	slices.SortFunc(changed, func(a, b change) int { return cmp.Or(a.size-b.size, strings.Compare(a.file, b.file)) })
	room := atOnce
	if c.left > 0 {
		room = maxTeamFile << (c.left - 1)
	}
	list := map[string]keptFile{}
	for _, ch := range changed {
		if room -= ch.size; room < 0 {
			list[ch.file] = keptFile{teamText: c.teamFiles[ch.file]}
		}
	}
	return list
}
