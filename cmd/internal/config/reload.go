package config

import (
	"errors"
	"path/filepath"
)

// Reload is [Load] for a process that runs c. Where all that is wrong is in files of teams, each of these teams keeps the file that c was read
// from, or stays out if c has none of it, and the other teams get their changes. kept are the problems of the files that were left; nil if none
// was. What is wrong with the main file, or with a kept file as well, since a variable of it is gone or the main file allows less, is the
// error, as with Load.
func (c *Config) Reload(o Options) (read *Config, kept Problems, err error) {
	read, err = Load(o)
	problems, ok := errors.AsType[Problems](err)
	if !ok {
		return read, nil, err
	}
	o.kept = map[string][]byte{}
	for _, p := range problems {
		if filepath.Clean(p.File) == filepath.Clean(o.Path) {
			return nil, nil, err
		}
		o.kept[p.File] = c.teamFiles[p.File]
	}
	if read, again := Load(o); again == nil {
		return read, problems, nil
	}
	return nil, nil, err
}
