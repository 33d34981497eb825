package config

import (
	"errors"
	"path/filepath"
)

// Reload is [Load] for a process that runs c. A team whose file has problems keeps the file that c was read from, or stays out if c has none of
// it; the other teams get their changes. kept has the problems of the files that were not taken; nil if all were.
//
// If the main file still has problems then, or a kept file has some now (a variable of it is gone, or the main file allows less), Reload fails.
// The error is that of Load: all problems of the files as they are.
func (c *Config) Reload(o Options) (read *Config, kept Problems, err error) {
	read, err = Load(o)
	problems, ok := errors.AsType[Problems](err)
	if !ok {
		return read, nil, err
	}
	o.kept = map[string][]byte{}
	for _, p := range problems {
		if filepath.Clean(p.File) != filepath.Clean(o.Path) { // the main file's may come of the others: that there is no such team
			o.kept[p.File] = c.teamFiles[p.File]
			kept = append(kept, p)
		}
	}
	if len(kept) == 0 {
		return nil, nil, err
	}
	if read, loadErr := Load(o); loadErr == nil {
		return read, kept, nil
	}
	return nil, nil, err
}
