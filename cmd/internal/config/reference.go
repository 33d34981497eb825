package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// environment is where references lead. Tests replace it.
type environment struct {
	lookup func(name string) (string, bool)
	read   func(path string) ([]byte, error)
}

func osEnvironment() environment { return environment{lookup: os.LookupEnv, read: readSmall} }

// maxReferenced bounds a referenced file: a secret is small, and a device that never ends must not hang the start.
const maxReferenced = 1 << 20

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

// expand replaces the references of s. "$${" is a literal "${".
func (e environment) expand(s string) (string, error) {
	var b strings.Builder
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			b.WriteString(s)
			return b.String(), nil
		}
		if i > 0 && s[i-1] == '$' {
			b.WriteString(s[:i-1] + "${")
			s = s[i+2:]
			continue
		}
		b.WriteString(s[:i])
		inner, rest, ok := strings.Cut(s[i+2:], "}")
		if !ok {
			return "", errors.New("a reference is not closed with }; write $${ for a literal ${")
		}
		value, err := e.value(inner)
		if err != nil {
			return "", err
		}
		b.WriteString(value)
		s = rest
	}
}

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

func (e environment) file(path string) (string, error) {
	data, err := e.read(path)
	if err != nil {
		return "", fmt.Errorf("reference to a file: %w", err)
	}
	text, cut := strings.CutSuffix(string(data), "\r\n")
	if !cut {
		text = strings.TrimSuffix(text, "\n")
	}
	if text == "" {
		return "", fmt.Errorf("reference to a file: %s is empty", path)
	}
	return text, nil
}
