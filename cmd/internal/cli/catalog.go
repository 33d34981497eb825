package cli

import (
	"runtime/debug"

	"github.com/forebay-io/forebay/cmd/internal/asyncapi"
	"github.com/forebay-io/forebay/cmd/internal/config"
)

type catalogExportCmd struct {
	fileFlags
	AsyncAPI bool `name:"asyncapi" required:"" help:"As a document of AsyncAPI 3.0: JSON, or YAML with -o yaml."`
}

// Run prints what the file's topics carry. It needs no secret and asks nobody.
func (c *catalogExportCmd) Run(e *env) error {
	cfg, err := config.Load(c.options(e, config.RoleCatalog))
	if err != nil {
		return err
	}
	version := "devel"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	doc, err := asyncapi.Document(cfg, version)
	if err != nil {
		return err
	}
	if e.output == "yaml" {
		return printYAML(e.Stdout, doc)
	}
	return printJSON(e.Stdout, doc)
}
