package app

import (
	"strconv"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/expression"
	"github.com/forebay-io/forebay/stream/reader"
)

// filtersOf says which of a subscription's filters an event meets, as the file has them now; nil if the log has the event no more.
func filtersOf(sub *config.Subscription, e *schemas.Event) (list []api.FilterItem) {
	if e.ID == "" {
		return nil
	}
	if len(sub.Types) > 0 {
		list = append(list, api.FilterItem{Key: "types", Parts: []api.FilterPart{{Text: strings.Join(sub.Types, ", "), Result: strconv.FormatBool(reader.Globs(sub.Types)(e.Type, e.Source)),
			Values: []api.FilterValue{{Name: "event.type", Value: strconv.Quote(e.Type)}}}}})
	}
	if sub.Match != "" {
		list = append(list, api.FilterItem{Key: "match", Parts: filterParts(expression.Explain(sub.Match, &expression.Input{Event: e}), 0)})
	}
	for _, a := range sub.Actions {
		if a.When != "" {
			list = append(list, api.FilterItem{Key: "when", Action: a.Name, Parts: filterParts(expression.Explain(a.When, &expression.Input{Event: e, Action: a.Name, To: a.To}), 0)})
		}
	}
	return list
}

// filterParts returns an expression and its operands as the API has them.
func filterParts(p expression.Part, depth int) []api.FilterPart {
	out := api.FilterPart{Depth: depth, Text: p.Text, Result: p.Result, Error: p.Error}
	for _, v := range p.Values {
		out.Values = append(out.Values, api.FilterValue(v))
	}
	list := []api.FilterPart{out}
	for _, part := range p.Parts {
		list = append(list, filterParts(part, depth+1)...)
	}
	return list
}
