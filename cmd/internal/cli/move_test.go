package cli

import (
	"strings"
	"testing"

	"github.com/forebay-io/forebay/stream/ledger"
)

// TestMoveOfStaticMembers: the plan does not say of processes that a ledger cannot see that they do not run.
func TestMoveOfStaticMembers(t *testing.T) {
	t.Parallel()
	m := &moving{Move: ledger.Move{FromName: "postgres of a.yaml", ToName: "postgres of b.yaml"}}
	if s := m.steps(ledger.MovePlan{}, nil)[0]; s != (planStep{"stop", stepDone, "no process runs it"}) {
		t.Errorf("%+v", s)
	}
	m.static = true
	if s := m.steps(ledger.MovePlan{}, nil)[0]; s.State != stepDone || !strings.HasPrefix(s.Detail, "see for yourself that no process runs it") {
		t.Errorf("%+v", s)
	}
	if s := m.steps(ledger.MovePlan{Runs: []string{"processes run it"}}, nil)[0]; s != (planStep{"stop", stepBlocked, "processes run it"}) {
		t.Errorf("%+v", s)
	}
}
