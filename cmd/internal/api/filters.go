package api

import "slices"

// FilterItem is a filter of a subscription and what it says of an event, as the file has it now.
type FilterItem struct {
	Key    string       `json:"key"`              // types, match, dedupe.also, senders, when, loop, policy, approval
	Action string       `json:"action,omitempty"` // of all but those of the subscription
	Parts  []FilterPart `json:"parts"`            // the whole first
}

// FilterPart is an expression, or an operand of its && or ||, and what it says of the event.
type FilterPart struct {
	Depth  int           `json:"depth"` // operands are one deeper than what they are of, and behind it
	Text   string        `json:"text"`
	Result string        `json:"result"` // true, false, error; of a guard, true lets the action go on; of a rule behind one that decides, not asked; of what a thin event is not asked here, not known
	Error  string        `json:"error,omitempty"`
	Values []FilterValue `json:"values,omitempty"` // of the fields that it names
}

// FilterValue is what an event has in a field.
type FilterValue struct {
	Name  string `json:"name"`
	Value string `json:"value"` // as JSON, cut short; empty: it has none
}

// withoutValues returns a filter as somebody sees it who may not see what events carry.
func (f FilterItem) withoutValues() FilterItem {
	f.Parts = slices.Clone(f.Parts)
	for i := range f.Parts {
		p := &f.Parts[i]
		p.Values = slices.Clone(p.Values)
		for k := range p.Values {
			withhold(&p.Values[k].Value)
		}
	}
	return f
}
