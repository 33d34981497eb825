package dev

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// sampleData is the data directory of the sample configuration, if none is given.
const sampleData = ".forebay"

// setPaths sets Data where it is not given, and clears Config if it names the file that dev wrote for the sample: no Config means the
// sample. The data of any other file are in a directory beside it that has its name: two files share nothing, neither with the sample.
func (o *Options) setPaths() {
	if o.Config == "" {
		if o.Data == "" {
			o.Data = sampleData
		}
		return
	}
	dir, name := filepath.Split(filepath.Clean(o.Config))
	dir = filepath.Clean(dir)
	if name == configName && isSampleData(dir) && (o.Data == "" || filepath.Clean(o.Data) == dir) {
		o.Config, o.Data = "", dir
		return
	}
	if o.Data == "" {
		o.Data = filepath.Join(dir, sampleData+"-"+strings.TrimSuffix(name, filepath.Ext(name)))
	}
}

// isSampleData reports whether dev has run the sample with its data in this directory, or would by default.
func isSampleData(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, started))
	return err == nil || filepath.Base(dir) == sampleData
}

// makeData makes the data directory, and tries whether files can be made in it.
func makeData(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "try-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// unusable says what to do about an error that the data directory may be the cause of. Others stay as they are.
func (o Options) unusable(err error) error {
	failed, _ := errors.AsType[*fs.PathError](err)
	switch {
	case errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0: // to whom else could root give it
		return fmt.Errorf("the data directory %s cannot be used: %w; give it to this user (chown -R %d), or name another one with --data DIR", o.Data, err, os.Geteuid())
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENOSPC),
		failed != nil && failed.Op == "mkdir": // such as in /proc, or under a name that is too long
		return fmt.Errorf("the data directory %s cannot be used: %w; name another one with --data DIR", o.Data, err)
	}
	return err
}
