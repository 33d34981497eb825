package config

import (
	"errors"
	"path/filepath"
)

// Start is [Load] for a process that starts: a team whose file has problems, or refers to what has, stays out, and the others run. left has the
// problems of the files that were left out; nil if none was. Where nothing is left, or the main file has problems, Start fails.
func Start(o Options) (read *Config, left Problems, err error) {
	read, left, err = (&Config{}).Reload(o)
	if err == nil && len(left) > 0 && len(read.Teams) == 0 {
		return nil, nil, left.sorted()
	}
	return read, left, err
}

// Reload is [Load] for a process that runs c. A team whose file has problems, or refers to what has, keeps the file that c was read from, or stays
// out if c has none of it; the other teams get their changes. Of what a kept file refers to, it gets what is new as long as that fits. kept has
// the problems of the files that were not taken; nil if all were.
//
// If the main file still has problems then, or allows less than a kept file needs, Reload fails. The error is that of Load: all problems of the
// files as they are.
func (c *Config) Reload(o Options) (read *Config, kept Problems, err error) {
	read, first := Load(o)
	o.kept = map[string]keptFile{}
	for err = first; err != nil; read, err = Load(o) {
		problems, ok := errors.AsType[Problems](err)
		if !ok {
			return nil, nil, first
		}
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
		if len(changed) == 0 {
			return nil, nil, first
		}
	}
	return read, kept, nil
}
