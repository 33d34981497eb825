package schemas

import (
	"strconv"
	"strings"
)

// Headers in which agents say who called whom before. They come from agents' sources, and go out with every call.
const (
	ChainHeader   = "X-Agent-Call-Chain"
	DepthHeader   = "X-Agent-Call-Depth"
	TraceIDHeader = "X-Agent-Trace-Id"
)

// Limits of a chain. One that is longer is no chain of ours, and would be refused for its depth anyway.
const (
	MaxAgents   = 64
	MaxAgent    = 128 // bytes of a name
	maxDepth    = 1 << 20
	MaxTraceID  = 128
	maxChain    = MaxAgents * (MaxAgent + 2)
	chainJoined = ", "
)

// Chain is which agents called one another before an event, the first one first.
type Chain struct {
	Agents []string
	// Depth is how many calls that were: never less than there are agents, whatever its sender says.
	Depth int
	// TraceID is the agents' own name for the whole; may be empty.
	TraceID string
}

// ParseChain reads a chain from the texts of its headers; empty texts are none. A depth that is lower than the list is long counts as that
// long. Errors are *[FieldError], and quote nothing.
func ParseChain(agents, depth, traceID string) (Chain, error) {
	c := Chain{TraceID: traceID}
	if len(agents) > maxChain {
		return Chain{}, &FieldError{"agentchain", "too_long", "more than " + strconv.Itoa(maxChain) + " bytes"}
	}
	for name := range strings.SplitSeq(agents, ",") {
		if name = strings.TrimSpace(name); name != "" {
			c.Agents = append(c.Agents, name)
		}
	}
	if depth = strings.TrimSpace(depth); depth != "" {
		n, err := strconv.ParseUint(depth, 10, 31)
		if err != nil {
			return Chain{}, &FieldError{"agentdepth", "wrong_type", "not an integer from 0 to 2^31-1"}
		}
		c.Depth = min(int(n), maxDepth)
	}
	c.Depth = max(c.Depth, len(c.Agents))
	return c, c.validate()
}

// Then returns the chain with one more call, by a name of ours. It shares nothing with c.
func (c Chain) Then(name string) Chain {
	return Chain{Agents: append(append(make([]string, 0, len(c.Agents)+1), c.Agents...), name), Depth: max(c.Depth, len(c.Agents)) + 1, TraceID: c.TraceID}
}

// Headers calls set for each header that says c.
func (c Chain) Headers(set func(name, value string)) {
	set(ChainHeader, c.AgentsText())
	set(DepthHeader, strconv.Itoa(c.Depth))
	if c.TraceID != "" {
		set(TraceIDHeader, c.TraceID)
	}
}

// AgentsText is the chain's list as the header has it.
func (c Chain) AgentsText() string { return strings.Join(c.Agents, chainJoined) }

// IsZero reports whether nobody was called before.
func (c Chain) IsZero() bool { return len(c.Agents) == 0 && c.Depth == 0 && c.TraceID == "" }

// validate returns a *FieldError for a chain that may not go on a record.
func (c Chain) validate() error {
	switch {
	case len(c.Agents) > MaxAgents:
		return &FieldError{"agentchain", "too_long", "more than " + strconv.Itoa(MaxAgents) + " agents"}
	case c.Depth < len(c.Agents) || c.Depth > maxDepth:
		return &FieldError{"agentdepth", "wrong_type", "less than the agents of the chain, or more than " + strconv.Itoa(maxDepth)}
	case len(c.TraceID) > MaxTraceID:
		return &FieldError{"agenttraceid", "too_long", "more than " + strconv.Itoa(MaxTraceID) + " bytes"}
	case !visible(c.TraceID):
		return &FieldError{"agenttraceid", "control_character", "not printable ASCII without spaces"}
	}
	for _, name := range c.Agents {
		if len(name) > MaxAgent {
			return &FieldError{"agentchain", "too_long", "an agent's name has more than " + strconv.Itoa(MaxAgent) + " bytes"}
		}
		if name == "" || !visible(name) || strings.Contains(name, ",") {
			return &FieldError{"agentchain", "control_character", "an agent's name is not printable ASCII without spaces and commas"}
		}
	}
	return nil
}

// visible reports whether a text is printable ASCII without spaces.
func visible(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}
