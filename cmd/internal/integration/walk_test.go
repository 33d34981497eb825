package integration

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestWalkOfTheOnCall is a night of the person on call, from what reaches that person alone: a destination breaks, an alert says so, the group
// is found in the console, the agent is mended, the group is replayed there, and the ledger and the agent show each action done once, in
// order. What was seen at each step is compared with the recording in testdata.
func TestWalkOfTheOnCall(t *testing.T) {
	t.Parallel()
	r, pager := deploy(t, rig.Fake(t), options{}), newPager(t)
	r.alertsOf(pager)
	var mended atomic.Bool
	r.agent.answers(http.StatusUnprocessableEntity, func(call) bool { return !mended.Load() })
	s := &transcript{r: r, p: r.serve("intake,stream")}
	heard := func(p page) {
		fmt.Fprintf(&s.text, "%s %s (%s): %s\n%s\n", p.Status, p.Alert, p.Severity, p.Summary, p.RunbookURL)
	}

	const issues, states = 3, 2
	for n := range states {
		for i := range issues {
			r.deliver(issue(7, i+1, n+1))
		}
	}
	s.say("the agent answers 422 to three issues; the second state of each waits behind. The alert comes to the receiver:")
	heard(pager.wait(t, "ForebayDeadLetter", 1))
	waitItems(t, r, s.p, issues, "--status", "dead_letter")

	b := openBrowser(t, "http://"+s.p.operator)
	s.say("the console's first page, and what its Dead letters say of the group:")
	b.until("/", fmt.Sprintf("%d dead_letter", issues))
	s.seen(b, "dead_letter")
	b.click("link", "Dead letters")
	b.see("row", r.team+"/agent")
	dead, err := r.dlq(s.p, "list")
	if err != nil || len(dead) != issues {
		t.Fatalf("%+v %v", dead, err)
	}
	s.names = append(s.names, dead[0].Group, "GROUP")
	for _, d := range dead {
		s.names = append(s.names, d.ID, "ACTION")
	}
	s.seen(b, "com.github.issues.edited")
	b.click("link", dead[0].ID)
	s.say("one of them:")
	s.seen(b, "rejected 422")

	mended.Store(true)
	s.say("the agent is mended; the group is replayed, with a reason:")
	b.open("/console/dlq")
	b.click("link", "Replay group "+dead[0].Group+"…")
	b.see("status", fmt.Sprintf("%d dead letters are replayed", issues))
	b.do("fill", "name", "Reason, which is kept", "text", "the agent is mended")
	b.click("button", fmt.Sprintf("Replay %d dead letters", issues))
	b.see("heading", "What became of it")
	s.seen(b, "asked to run again")

	waitItems(t, r, s.p, issues*states, "--status", "done")
	s.say("nothing waits any more, and the ledger has each event done:")
	b.until("/", "Nothing waits for an operator.")
	items := r.inbox(s.p, "--limit", "100")
	slices.SortFunc(items, func(a, b inboxItem) int { return strings.Compare(a.Entity+a.Version, b.Entity+b.Version) })
	for _, i := range items {
		fmt.Fprintf(&s.text, "%s  %s  %s after %d attempts\n", i.Entity, i.Decision, i.Status, i.Attempts)
	}
	s.say("what the agent was asked, by issue and state, and what it answered:")
	s.text.WriteString(asked(r.agent.snapshot()))
	s.say("the audit:")
	fmt.Fprintf(&s.text, "%d rows of dlq.replay, with the reason\n", strings.Count(string(r.ask(s.p, "audit", "list", "--action", "dlq.replay", "-o", "jsonl")), `"the agent is mended"`))
	s.golden("walk.golden")
}

// ago is how long ago something was, as pages say it.
var ago = regexp.MustCompile(`\b(\d+[a-z]+ ago|now)\b`)

// seen writes the lines of the open page that say a text.
func (s *transcript) seen(b *browser, text string) {
	var lines []string
	for line := range strings.Lines(b.do("text").(string)) {
		if strings.Contains(line, text) {
			line = strings.NewReplacer(s.names...).Replace(line)
			lines = append(lines, ago.ReplaceAllString(strings.Join(strings.Fields(line), " "), "AGO"))
		}
	}
	if lines == nil {
		s.r.t.Errorf("the page does not say %q:\n%s", text, b.do("text"))
	}
	slices.Sort(lines) // what died at once stands in any order
	fmt.Fprintln(&s.text, strings.Join(lines, "\n"))
}

// asked lists what an agent was asked: a line an issue, each state with what was answered.
func asked(calls []call) string {
	lines := map[int][]string{}
	for _, c := range calls {
		i, n := issueOf(c)
		lines[i] = append(lines[i], fmt.Sprintf("state %d: %d", n, c.status))
	}
	var b strings.Builder
	for i := range len(lines) {
		fmt.Fprintf(&b, "issue %d: %s\n", i+1, strings.Join(lines[i+1], ", "))
	}
	return b.String()
}
