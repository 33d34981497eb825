package cli

import "github.com/forebay-io/forebay/cmd/internal/api"

// planStep is a step of what an operator and a command do together, such as `topics rekey`.
type planStep struct {
	Step   string `json:"step"`
	State  string `json:"state"` // done, blocked (by what Detail says), to do
	Detail string `json:"detail"`
}

const (
	stepDone    = "done"
	stepBlocked = "blocked"
	stepToDo    = "to do"
)

func showSteps(e *env, steps []planStep) error {
	return printList(e, api.Page[planStep]{Items: steps}, func(s planStep) string { return s.Step },
		column[planStep]{name: "step", value: func(s planStep) string { return s.Step }},
		column[planStep]{name: "state", value: func(s planStep) string { return s.State }},
		column[planStep]{name: "detail", whole: true, below: true, value: func(s planStep) string { return s.Detail }})
}
