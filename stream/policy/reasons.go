package policy

// Reasons of verdicts.
const (
	When       = "when"       // skipped: the action's when is false
	Expression = "expression" // dead: an expression failed on this event
	Own        = "own"        // dropped: we caused the event ourselves
	Automation = "automation" // dropped: automation caused it, and senders says drop
	Loop       = "loop"       // dropped, dead: agents answer one another
	Budget     = "budget"     // waiting_budget, dropped, dead: the limit is reached
	Policy     = "policy"     // denied: a rule says deny
	Approval   = "approval"   // waiting_approval, denied: a person's word is asked for
	Removed    = "removed"    // dead: the file has no such action any more
)

// DeadClasses returns the reasons of verdicts that make an action a dead letter.
func DeadClasses() []string { return []string{Expression, Loop, Budget, Removed} }
