package cli

import (
	"fmt"
	"io"

	"github.com/forebay-io/forebay/cmd/internal/build"
)

type versionCmd struct{}

func (c *versionCmd) Run(e *env) error {
	b := build.Read()
	return printOne(e, b, b.Version, func(w io.Writer) {
		revision := b.Revision
		if b.Modified {
			revision += " (modified)"
		}
		fmt.Fprintf(w, "forebay %s %s %s %s\n", b.Version, cell(revision), b.Go, b.Platform)
	})
}
