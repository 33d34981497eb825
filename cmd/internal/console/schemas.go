package console

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/jsonschema"
)

// schemasPage is the catalogue of schemas, and how bodies have changed their shape.
type schemasPage struct {
	listed
	Catalogue []schemaRow
	All       int // how many the catalogue has
	Drift     part[*api.Drift]
	Learning  int // event types of which too little was seen for a comparison
}

type schemaRow struct {
	Name, Title, Types, Link string
}

func (c *Console) schemas(ctx context.Context, r *http.Request) (any, error) {
	p := schemasPage{listed: listed{Query: r.URL.Query()}}
	if err := api.OnlyKnown(r, "type"); err != nil {
		return nil, err
	}
	p.All = len(jsonschema.All())
	for _, s := range jsonschema.All() {
		row := schemaRow{s.Name(), s.Title, strings.Join(s.Types, " "), "/console/schemas/" + url.PathEscape(s.Name())}
		if strings.Contains(row.Name+" "+row.Types, p.Get("type")) {
			p.Catalogue = append(p.Catalogue, row)
		}
	}
	p.Drift = partOf(ctx, c.API.DriftReport)
	if p.Drift.Value != nil {
		for _, t := range p.Drift.Value.Types {
			if t.Learning {
				p.Learning++
			}
		}
	}
	return p, nil
}

// schemaPage is one schema of the catalogue.
type schemaPage struct {
	*jsonschema.Schema
	Text string
}

func (c *Console) schema(_ context.Context, r *http.Request) (any, error) {
	if err := api.OnlyKnown(r); err != nil {
		return nil, err
	}
	s, ok := jsonschema.Lookup(r.PathValue("name"))
	if !ok {
		return nil, schemas.Errorf(schemas.NotFound, "", "the catalogue has no schema %q", r.PathValue("name"))
	}
	return schemaPage{s, string(s.Text())}, nil
}
