package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

type versionCmd struct{}

// build describes the binary.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// buildInfo reads what the Go toolchain has stamped into the binary.
func buildInfo() build {
	b := build{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (c *versionCmd) Run(e *env) error {
	b := buildInfo()
	return printOne(e, b, b.Version, func(w io.Writer) {
		revision := b.Revision
		if b.Modified {
			revision += " (modified)"
		}
		fmt.Fprintf(w, "forebay %s %s %s %s\n", b.Version, cell(revision), b.Go, b.Platform)
	})
}
