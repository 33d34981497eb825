package api

import (
	"slices"
	"strings"
)

// What the audit calls it that somebody logs in at the console, and out.
const (
	ConsoleLogin  = "console.login"
	ConsoleLogout = "console.logout"
)

// verbsOf returns the verbs that can stand at the end of what a question changes.
func verbsOf(change string) []string {
	if strings.HasPrefix(change, "approval.") {
		return []string{VerbApprove, VerbDeny}
	}
	return verbs
}

// AuditActions returns the actions that an AuditItem can have, sorted.
func AuditActions() []string {
	list := []string{ConsoleLogin, ConsoleLogout, "agent.create", "agent.revoke"} // agents are the command line's alone
	for _, q := range (&server{}).routes() {
		of := []string{q.change}
		if before, ok := strings.CutSuffix(q.change, "{verb}"); ok {
			of = nil
			for _, verb := range verbsOf(before) {
				of = append(of, before+verb)
			}
		}
		for _, action := range of {
			if action != "" && !slices.Contains(list, action) {
				list = append(list, action)
			}
		}
	}
	slices.Sort(list)
	return list
}
