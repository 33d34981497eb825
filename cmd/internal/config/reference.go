package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// environment reads the variables and files that references name. Tests replace it.
type environment struct {
	lookup func(name string) (string, bool)
	read   func(path string) ([]byte, error)
}

func osEnvironment() environment { return environment{lookup: os.LookupEnv, read: readSmall} }

// maxReferenced is the largest file that a reference may name: a secret is small, and a device that never ends must not hang the start.
const maxReferenced = 1 << 20

// readSmall reads a file of at most maxReferenced bytes.
func readSmall(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxReferenced+1))
	if err == nil && len(data) > maxReferenced {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxReferenced)
	}
	return data, err
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

// value returns what a reference names; inner is its text between the braces. An empty value is an error: it is a mistake more often
// than it is meant.
func (e environment) value(inner string) (string, error) {
	scheme, name, _ := strings.Cut(inner, ":")
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
	return "", fmt.Errorf("${%s} is not a reference: use ${env:NAME} or ${file:PATH}, or $${ for a literal ${", inner)
}

// file returns the content of a file without the newline at its end.
func (e environment) file(path string) (string, error) {
	data, err := e.read(path)
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
