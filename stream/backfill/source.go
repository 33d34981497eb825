package backfill

import (
	"errors"
	"fmt"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/scan"
)

// SourceConfig says how gaps of one source are filled.
type SourceConfig struct {
	// Topic is the source's topic. The synthetic events go there.
	Topic string
	// Fetcher asks with a template of use [Gap].
	Fetcher *Fetcher
	// Items is a JSON Pointer to the elements, if the answer wraps them; empty: the answer is an element, or an array of them.
	Items string
	// Name makes an event of an element, which is the event's body: type, version, payload kind, times. Entity stays empty where
	// elements do not say it: then it is the one that was asked for. ID stays empty where elements have none that is stable.
	Name func(element []byte) (*schemas.Event, error)
}

// Source is a source whose gaps can be filled.
type Source struct {
	cfg   SourceConfig
	items *scan.Set
}

// NewSource compiles a source. Errors are of kind invalid.
func NewSource(cfg SourceConfig) (*Source, error) {
	items, err := scan.Compile(cfg.Items)
	switch {
	case err != nil:
		err = fmt.Errorf("items: %w", err)
	case cfg.Fetcher == nil || cfg.Fetcher.cfg.Use != Gap || cfg.Name == nil || cfg.Topic == "":
		err = errors.New("a fetcher for backfills, a topic and a mapping are needed")
	}
	if err != nil {
		return nil, schemas.Errorf(schemas.Invalid, "", "%w", err)
	}
	return &Source{cfg: cfg, items: items}, nil
}
