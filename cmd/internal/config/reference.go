package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// environment reads the variables and files that references name. Tests replace it.
type environment struct {
	lookup func(name string) (string, bool)
	read   func(path string) ([]byte, error)
	readIn func(dir, path string) ([]byte, error) // reads a file below a directory
	border *border                                // of a team's file; nil: references may lead anywhere
	dir    string                                 // of the file that the references stand in: relative paths are relative to it

	room     *int              // how many bytes the references of a team's file may still lead to; nil: as many as they like
	followed map[string]string // notes what references led to, by the text between their braces; nil: they are not noted
	before   map[string]string // what they led to when the file was read without problems: for those that lead nowhere now
	asBefore bool              // before is for all of them
}

// team is whose file it is; empty: the main file's.
func (e environment) team() string {
	if e.border == nil {
		return ""
	}
	return e.border.team
}

func osEnvironment() environment {
	return environment{lookup: os.LookupEnv, read: readSmall, readIn: readBelow}
}

// maxReferenced is the largest file that a reference may name: a secret is small, and a device that never ends must not hang the start.
const maxReferenced = 1 << 20

// maxReferences is how much the references of a team's file lead to at most, each counted: what they lead to is kept once for each.
const maxReferences = 32 << 20

// readSmall reads a plain file of at most maxReferenced bytes.
func readSmall(path string) ([]byte, error) {
	return readPlain(func(flag int) (*os.File, error) { return os.OpenFile(path, flag, 0) }, path, maxReferenced)
}

// notPlainError is the error of what was opened in the place of a plain file: a directory, a pipe or a device.
type notPlainError struct {
	path string
	dir  bool // it is a directory
}

func (e *notPlainError) Error() string { return e.path + " is not a plain file" }

// readPlain reads a plain file of at most so many bytes, which open opens with a flag; path is what errors call it. It waits for no pipe: a
// running process reads its configuration again, and a pipe has nothing the second time.
func readPlain(open func(flag int) (*os.File, error), path string, most int64) ([]byte, error) {
	f, err := open(os.O_RDONLY | syscall.O_NONBLOCK) // or opening a pipe would wait for its writer
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat() // of what was opened: a name may change its file at any time
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &notPlainError{path, info.IsDir()}
	}
	return readAtMost(f, path, most)
}

// readAtMost reads a file of at most so many bytes.
func readAtMost(f io.Reader, path string, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s is larger than %d bytes", path, most)
	}
	return data, err
}

// readBelow reads a file of at most maxReferenced bytes below a directory.
func readBelow(dir, path string) ([]byte, error) { return readInside(dir, path, maxReferenced) }

// readInside reads a plain file below a directory that somebody else may write to: no link leads out of it, and no pipe is waited for.
func readInside(dir, path string, most int64) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // it was only read
	whole := filepath.Join(dir, path)
	return readPlain(func(flag int) (*os.File, error) {
		f, err := root.OpenFile(path, flag, 0)
		if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
			err = fmt.Errorf("%s, in which no link may lead out of %s: %w", whole, dir, pathErr.Err)
		}
		return f, err
	}, whole, most)
}

// hasReference reports whether s contains a reference or an escape.
func hasReference(s string) bool { return strings.Contains(s, "${") }

// expand replaces the references of s. "$${" is a literal "${". It also returns each reference by what it led to.
func (e environment) expand(s string) (text string, led map[string]string, err error) {
	var b strings.Builder
	led = map[string]string{}
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			b.WriteString(s)
			return b.String(), led, nil
		}
		if i > 0 && s[i-1] == '$' {
			b.WriteString(s[:i-1] + "${")
			s = s[i+2:]
			continue
		}
		b.WriteString(s[:i])
		inner, rest, ok := strings.Cut(s[i+2:], "}")
		if !ok {
			return "", nil, errors.New("a reference is not closed with }; write $${ for a literal ${")
		}
		value, err := e.value(inner)
		if err != nil {
			return "", nil, err
		}
		led[value] = "${" + inner + "}"
		b.WriteString(value)
		s = rest
	}
}

// refused returns the error for the first reference of s that is beyond the border; nil if all may be read. It reads nothing, so that a
// reference is refused whether or not this process uses it.
func (e environment) refused(s string) error {
	if e.border == nil {
		return nil
	}
	e.followed, e.before, e.room = nil, nil, nil
	e.lookup = func(string) (string, bool) { return "x", true }
	e.read = func(string) ([]byte, error) { return []byte("x"), nil }
	e.readIn = func(string, string) ([]byte, error) { return []byte("x"), nil }
	_, _, err := e.expand(s)
	return err
}

// value returns what a reference names; inner is its text between the braces. An empty value is an error: it is a mistake more often
// than it is meant.
func (e environment) value(inner string) (string, error) {
	scheme, name, _ := strings.Cut(inner, ":")
	if e.border != nil && name != "" && (scheme == "env" || scheme == "file") {
		if err := e.border.may(scheme, name); err != nil {
			return "", err
		}
	}
	value, done := e.followed[inner]
	if !done {
		was, known := e.before[inner]
		var err error
		if value = was; !known || !e.asBefore {
			value, err = e.follow(scheme, name)
		}
		if known && err != nil {
			value, err = was, nil
		}
		if err != nil {
			return "", err
		}
		if e.followed != nil {
			e.followed[inner] = value
		}
	}
	if e.room != nil {
		if *e.room -= len(value); *e.room < 0 {
			return "", fmt.Errorf("the references of a team's file may lead to %d bytes together, and this one is beyond that", maxReferences)
		}
	}
	return value, nil
}

// follow returns what a reference that is within the border leads to now.
func (e environment) follow(scheme, name string) (string, error) {
	switch {
	case scheme == "env" && name != "":
		value, ok := e.lookup(name)
		if !ok {
			return "", fmt.Errorf("environment variable %s is not set", name)
		}
		if value == "" {
			return "", fmt.Errorf("environment variable %s is empty", name)
		}
		return value, nil
	case scheme == "file" && name != "":
		return e.file(name)
	}
	return "", fmt.Errorf("${%s} is not a reference: use ${env:NAME} or ${file:PATH}, or $${ for a literal ${", strings.TrimSuffix(scheme+":"+name, ":"))
}

// file returns the content of a file without the newline at its end.
func (e environment) file(path string) (string, error) {
	data, err := e.readFile(path)
	if err != nil {
		return "", fmt.Errorf("reference to a file: %w", err)
	}
	text, windows := strings.CutSuffix(string(data), "\r\n")
	if !windows {
		text = strings.TrimSuffix(text, "\n")
	}
	if text == "" {
		return "", fmt.Errorf("reference to a file: %s is empty", path)
	}
	return text, nil
}

// pathFrom returns a path of a file in a directory, as it leads from here.
func pathFrom(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// readFile reads the file of a reference, which is within the border.
func (e environment) readFile(path string) ([]byte, error) {
	if e.border == nil {
		return e.read(pathFrom(e.dir, path))
	}
	dir, below, err := e.border.file(path)
	switch {
	case err != nil:
		return nil, err
	case dir == "":
		return e.read(below)
	}
	return e.readIn(dir, below)
}
