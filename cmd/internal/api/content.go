package api

import (
	"slices"

	"github.com/forebay-io/forebay/cmd/internal/access"
)

// withheld stands where a destination has answered something that somebody may not see.
const withheld = "(withheld: the token may not see what events carry)"

// shownTo returns an answer as somebody may see it: what destinations answer is often made of what events carry. Paths that answer with
// nothing else need the right by themselves.
func shownTo(w *access.Who, answer any) any {
	if w.May(access.Content) {
		return answer
	}
	switch a := answer.(type) {
	case Page[DeadLetterItem]:
		a.Items = slices.Clone(a.Items)
		for i := range a.Items {
			withhold(&a.Items[i].Response)
		}
		return a
	case *DeadLetterDetail:
		shown := *a
		withhold(&shown.Response)
		shown.History = attemptsWithout(shown.History)
		return &shown
	case *DeadLetterAnswer:
		shown := *a
		withhold(&shown.Response)
		return &shown
	case *ApprovalItem:
		shown := *a
		withhold(&shown.Sends)
		return &shown
	case *InboxDetail:
		shown := *a
		shown.Actions = slices.Clone(shown.Actions)
		for i := range shown.Actions {
			shown.Actions[i].Attempts = attemptsWithout(shown.Actions[i].Attempts)
		}
		shown.Filters = slices.Clone(shown.Filters)
		for i := range shown.Filters {
			shown.Filters[i] = shown.Filters[i].withoutValues()
		}
		return &shown
	}
	return answer
}

func attemptsWithout(attempts []AttemptItem) []AttemptItem {
	attempts = slices.Clone(attempts)
	for i := range attempts {
		withhold(&attempts[i].Response)
	}
	return attempts
}

func withhold(text *string) {
	if *text != "" {
		*text = withheld
	}
}
