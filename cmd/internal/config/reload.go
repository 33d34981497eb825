package config

import (
	"errors"
	"path/filepath"
)

// Reload is [Load] for a process that runs c. Each team whose file has problems keeps the file that c was read from, or stays out if c has none of
// it, and the other teams get their changes. kept are the problems of the files that were left; nil if none was. What is wrong with the main file
// then, or with a kept file as well, since a variable of it is gone or the main file allows less, is an error: the one of Load, with all that is
// wrong with the files as they are.
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
