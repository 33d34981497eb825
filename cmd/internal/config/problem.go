package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with the configuration.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line"` // 0 if the problem has no line
	Path    string `json:"path"` // "teams.acme.sources.github.preset"
	Message string `json:"message"`
}

// String returns FILE:LINE: PATH: MESSAGE, without the parts that the problem does not have.
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d", p.Line)
		}
		b.WriteString(": ")
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	return b.String() + p.Message
}

// Problems is every problem of a configuration, as one error. A function that returns it as an error never returns it empty.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// sorted sorts the problems by file, line and path and drops repeated ones.
func (ps Problems) sorted() Problems {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Path, b.Path))
	})
	return slices.Compact(ps)
}

// place is where a path was written.
type place struct {
	file string
	line int
}
