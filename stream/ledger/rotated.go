package ledger

import (
	"strconv"
	"strings"
)

// Every subscription has windows of its own, and a window has a child of each rotated table. A statement that names the
// parent table is planned over the children of all subscriptions, and locks them: with 3 to 57 children a claim spent a
// quarter of a second on that on average. So statements for one subscription name the children of its windows; operators'
// questions about the whole ledger name the parents. A statement says {actions} for either.
var rotated = []string{"events", "rejected_records", "actions", "completions", "attempts"}

// OfAll is a statement on the windows of all subscriptions.
func OfAll(sql string) string {
	for _, table := range rotated {
		sql = strings.ReplaceAll(sql, "{"+table+"}", table)
	}
	return sql
}

// OfWindows is a statement on some windows, at least one. A table in braces has an alias behind it: of several windows it
// is a subquery, which the planner takes apart into scans of the children.
func OfWindows(windows []int32, sql string) string {
	for _, table := range rotated {
		if !strings.Contains(sql, "{"+table+"}") {
			continue
		}
		children := make([]string, len(windows))
		for i, w := range windows {
			children[i] = table + "_w" + strconv.Itoa(int(w))
		}
		from := children[0]
		if len(children) > 1 {
			from = "(SELECT * FROM " + strings.Join(children, " UNION ALL SELECT * FROM ") + ")"
		}
		sql = strings.ReplaceAll(sql, "{"+table+"}", from)
	}
	return sql
}

// OfWindow is a statement on one window, which it says as {w}.
func OfWindow(window int32, sql string) string {
	return strings.ReplaceAll(sql, "{w}", strconv.Itoa(int(window)))
}
