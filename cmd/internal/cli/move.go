package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/app"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
)

// subscriptionsMoveCmd takes a subscription to another ledger: the plan, or with --run the move.
type subscriptionsMoveCmd struct {
	fileFlags
	subscriptionArg
	To string `required:"" placeholder:"FILE" help:"The configuration file that gives it its new ledger, which forebay migrate has made."`
	Do bool   `name:"run" help:"Move it, or go on with a move that was broken off. Without it only the plan is shown."`
}

// Help is what kong prints below the command's summary.
func (subscriptionsMoveCmd) Help() string {
	return "--config is the file that it runs with, --to a copy in which it has another ledger. Version lines, dedupe, waiting events, open actions, dead letters and the inbox go along; " +
		"its Kafka group stays as it is. Stop its processes first: neither ledger runs it meanwhile. What was broken off is begun again with the same command, or taken back with the files the other way round."
}

// moving is one run of the command.
type moving struct {
	ledger.Move
	static bool // its processes may be static members, of which no ledger has rows
}

// Run shows the plan or, with --run, moves the subscription.
func (c *subscriptionsMoveCmd) Run(e *env) error {
	n, err := names.Subscription.Parse(c.ID)
	if err != nil || n.Team == "" {
		return usageError("%q is not a subscription: write TEAM.SUBSCRIPTION", c.ID)
	}
	m := &moving{Move: ledger.Move{Subscription: n.Team + "." + n.Name}}
	from, to := c.fileFlags, fileFlags{File: c.To}
	fromTeam, err := m.openIn(e, from, &m.From, &m.FromName)
	if err != nil {
		return err
	}
	defer m.From.Close()
	toTeam, err := m.openIn(e, to, &m.To, &m.ToName)
	if err != nil {
		return err
	}
	defer m.To.Close()
	if fromTeam && !toTeam {
		return schemas.Errorf(schemas.Conflict, "", "the ledger %s is named in a team's file, and its rows could be anything: they are not taken into one of the main file", m.FromName)
	}
	if !c.Do {
		return m.show(e, n)
	}
	return m.run(e)
}

// openIn opens the ledger that a file gives the subscription, and reports whether a team's file names it.
func (m *moving) openIn(e *env, f fileFlags, opened **ledger.Ledger, name *string) (ofTeam bool, err error) {
	o := f.options(e, config.RoleMigrate)
	o.Subscriptions = []string{m.Subscription}
	cfg, err := config.Load(o)
	if err != nil {
		return false, err
	}
	m.static = m.static || cfg.Kafka.InstanceID != ""
	of := cfg.Ledger()
	*name = of.Path + " of " + filepath.Base(f.File)
	lc, err := app.LedgerConfig(of, e.log)
	if err != nil {
		return false, err
	}
	if *opened, err = ledger.Open(e.ctx, lc); err != nil {
		return false, fmt.Errorf("%s: %w", *name, err)
	}
	return of.OfTeam, nil
}

// show writes the plan, and changes nothing.
func (m *moving) show(e *env, n names.Name) error {
	p, err := m.Plan(e.ctx)
	if err != nil {
		return err
	}
	status, err := inbox.New(m.From).Subscriptions(e.ctx, n.Team, n.Name)
	if err != nil {
		return err
	}
	return showSteps(e, m.steps(p, status))
}

// steps are those of the plan.
func (m *moving) steps(p ledger.MovePlan, status []inbox.SubscriptionStatus) []planStep {
	step := func(name, blocked, done string) planStep {
		if blocked != "" {
			return planStep{name, stepBlocked, blocked}
		}
		return planStep{name, stepDone, done}
	}
	var rows []string
	for _, r := range p.Rows {
		if r.Rows > 0 {
			rows = append(rows, fmt.Sprintf("%d %s", r.Rows, r.Table))
		}
	}
	var open, held, waiting int64
	for _, s := range status {
		open, held, waiting = open+s.OpenActions, held+s.HeldActions, waiting+s.Buffered
	}
	stays := "changes in the audit, tokens, and what is known and counted of destinations and teams"
	if len(p.Behind) > 0 {
		stays += "; and these pauses, which hold it up now: set them in the new ledger before it runs there: " + strings.Join(p.Behind, ", ")
	}
	runs := "no process runs it"
	if m.static {
		runs = "see for yourself that no process runs it: the ledgers do not know static members (kafka.instance_id)"
	}
	list := []planStep{
		step("stop", strings.Join(p.Runs, "; "), runs),
		step("drain", strings.Join(p.Open, "; "), fmt.Sprintf("%d open actions, %d failed or parked ones and %d waiting events go along", open, held, waiting)),
		step("target", p.Target, m.ToName+" can take it"),
		{"copy", stepToDo, "rows: " + strings.Join(rows, ", ") + ": --run does it"},
		{"stays", stepDone, stays},
		{"switch", stepToDo, m.switchText()},
	}
	switch p.State {
	case ledger.MoveBegun:
		list[3].Detail = "it was broken off; --run goes on. " + list[3].Detail
	case ledger.MoveBack:
		return append(list[:1], planStep{"take back", stepToDo, fmt.Sprintf("a move from %s to %s was broken off: --run throws away what was copied, and %[1]s runs the subscription again", m.ToName, m.FromName)})
	case ledger.MoveCopied:
		return append(list[:1], planStep{"copy", stepDone, "it is in the new ledger"}, planStep{"clean up", stepToDo, "rows of the old one are left: --run deletes them"}, list[5])
	case ledger.MoveDone:
		return []planStep{{"copy", stepDone, "it is in the new ledger, and nothing is left in the old one"}, list[5]}
	}
	return list
}

func (m *moving) switchText() string {
	return fmt.Sprintf("start its processes with %s; one with the old file does not run it", m.ToName[strings.LastIndex(m.ToName, " of ")+4:])
}

// movedSubscription is the outcome of a run.
type movedSubscription struct {
	Subscription string `json:"subscription"`
	From         string `json:"from"`
	To           string `json:"to"`
	Taken        string `json:"taken"` // moved, back
	Rows         int64  `json:"rows"`
	Switch       string `json:"switch"`
	took         time.Duration
}

// run moves it, and says how far it is.
func (m *moving) run(e *env) error {
	p, began := e.progress(), time.Now()
	defer p.clear()
	m.Progress = func(table string, done, of int64) {
		if p.due() {
			p.say(done, of, fmt.Sprintf("copied %d of %d rows, last %s", done, of, table))
		}
	}
	plan, err := m.Move.Run(e.ctx)
	if err != nil {
		return err
	}
	p.clear()
	done := movedSubscription{m.Subscription, m.FromName, m.ToName, "moved", 0, m.switchText(), time.Since(began)}
	if plan.State == ledger.MoveBack {
		done.Taken = "back"
	}
	for _, r := range plan.Rows {
		done.Rows += r.Rows
	}
	return printOne(e, done, done.Subscription, func(w io.Writer) {
		line := func(name, value string) { fmt.Fprintf(w, "%-13s %s\n", name, plain(value)) }
		line("subscription", done.Subscription)
		line("from", done.From)
		line("to", done.To)
		line("rows", fmt.Sprint(done.Rows))
		line("took", done.took.Round(time.Millisecond).String())
		line("now", done.Switch)
	})
}
