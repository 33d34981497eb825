package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/app"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/topics"
	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
)

// topicsRekeyCmd gives a source a topic with another number of partitions: the plan, or with --run the part of it that a
// program can do.
type topicsRekeyCmd struct {
	fileFlags
	Topic      string `arg:"" help:"Topic of a source's events."`
	Partitions int32  `required:"" placeholder:"N" help:"Partitions that it is to have."`
	To         string `placeholder:"TOPIC" help:"Topic to go on in; default: the topic's name, a dot and N."`
	Data       string `placeholder:"DIR" help:"The --data directory that forebay dev was started with for this file."`
	Do         bool   `name:"run" help:"Copy what is unread, and hand the subscriptions over. Without it only the plan is shown."`
	LeaveOpen  bool   `help:"Go on although actions are open, failed or parked: they stay in the ledger and never run. Events that wait for a gap go along either way."`
}

// rekeying is one run of the command.
type rekeying struct {
	cmd    *topicsRekeyCmd
	cfg    *config.Config
	team   string
	source string // whose topic it is
	adm    *kadm.Client
	opened []openLedger // all ledgers of the file: any of them may have a reader

	// lookUp sets these.
	from    ledger.Partition // the topic; no partition of it in particular
	starts  map[int32]int64  // start offsets, by partition
	ends    map[int32]int64  // end offsets, by partition
	records int64            // of the topic that one of the readers has yet to read
	skipped []string         // a text for each reader of offsets that it passed over
	readers []ledger.Reader  // subscriptions with a position in the topic, in each of their generations
}

// Run shows the plan or, with --run, copies what is unread of the topic and hands its readers over.
func (c *topicsRekeyCmd) Run(e *env) error {
	cfg, stop, err := c.supplied(e, c.Data, config.RoleTopics, config.RoleMigrate)
	if err != nil {
		return err
	}
	defer stop()
	r := &rekeying{cmd: c, cfg: cfg}
	of, ok := cfg.SourceOfTopic(c.Topic)
	if r.team, r.source = of.Team, of.Name; !ok {
		return schemas.Errorf(schemas.NotFound, "", "no source of %s has the topic %s; `forebay config show` says which they have", c.File, c.Topic)
	}
	if c.To == "" {
		c.To = fmt.Sprintf("%s.%d", c.Topic, c.Partitions)
	}
	if c.Partitions < 1 || c.To == c.Topic || !strings.HasPrefix(c.To, "events."+r.team+".") {
		return usageError("--partitions %d --to %s: a topic needs a partition, another name than the one it copies, and the team's prefix events.%s.", c.Partitions, c.To, r.team)
	}
	if has, ok := cfg.SourceOfTopic(c.To); ok {
		return schemas.Errorf(schemas.Conflict, "copy "+c.Topic, "%s is the topic of source %s; name another with --to", c.To, has.FullName())
	}
	client, err := kgo.NewClient(app.KafkaOptions(cfg, config.RoleTopics)...)
	if err != nil {
		return err
	}
	defer client.Close()
	r.adm = kadm.NewClient(client)
	defer r.close()
	if err := r.openLedgers(e); err != nil {
		return err
	}
	steps, err := r.plan(e.ctx)
	if err != nil {
		return err
	}
	if !c.Do {
		return showSteps(e, steps)
	}
	return r.run(e, steps)
}

// openLedger is a ledger of the file.
type openLedger struct {
	config.Ledger
	ledger *ledger.Ledger
}

// openLedgers opens all ledgers of the file.
func (r *rekeying) openLedgers(e *env) error {
	for _, of := range r.cfg.Ledgers() {
		cfg, err := app.LedgerConfig(of, e.log)
		if err != nil {
			return err
		}
		l, err := ledger.Open(e.ctx, cfg)
		if err != nil {
			return fmt.Errorf("%s: %w", of.Path, err)
		}
		r.opened = append(r.opened, openLedger{of, l})
	}
	return nil
}

func (r *rekeying) close() {
	for _, o := range r.opened {
		o.ledger.Close()
	}
}

// ledgerOf returns the ledger of a configured subscription, TEAM.SUBSCRIPTION.
func (r *rekeying) ledgerOf(name string) *ledger.Ledger {
	i := slices.IndexFunc(r.opened, func(o openLedger) bool { return slices.Contains(o.Subscriptions, name) })
	return r.opened[i].ledger // Ledgers has all subscriptions
}

// subscriptions returns the subscriptions that are configured to read the source, of all teams, as TEAM.SUBSCRIPTION.
func (r *rekeying) subscriptions() []string { return r.cfg.ReadersOf(r.team, r.source) }

// plan returns the steps and which of them are done or blocked. It reads Kafka and the ledger and changes nothing.
func (r *rekeying) plan(ctx context.Context) ([]planStep, error) {
	stop, err := r.stopStep(ctx) // before the rest: what runs meanwhile, the hand-over finds
	if err != nil {
		return nil, err
	}
	if err := r.lookUp(ctx); err != nil {
		return nil, err
	}
	drain, err := r.drainStep(ctx)
	if err != nil {
		return nil, err
	}
	c := r.cmd
	return []planStep{
		{"intake", stepToDo, "stop every process with the intake role; providers try again until it is back. A record that comes later fails the copy. What waits in a spool (forebay_spool_records) goes to the topic that the file names by then"},
		drain, stop,
		{"copy", stepToDo, fmt.Sprintf("%d records of %s (%d partitions) that are not read yet to %s (%d), in order per entity: --run does it", r.records, c.Topic, len(r.ends), c.To, c.Partitions)},
		r.handsOver(),
		{"switch", stepToDo, r.switchText()},
		{"clean up", stepToDo, fmt.Sprintf("delete %s when nobody needs it any more: what was read before is there alone, for rejected records that are redriven (forebay inbox redrive), and bodies of what ran. No seek and no replay goes back to it: run before the switch what is to run again", c.Topic)},
	}, nil
}

// switchText says how the configuration has to change after the copy.
func (r *rekeying) switchText() string {
	push := ""
	if s := r.cfg.Teams[r.team].Sources[r.source].JSONSchema; r.cfg.Registry != nil && s.Own != "" && s.Check != provider.SchemaOff { // its subject has the topic's name
		push = "run `forebay schemas push` with that file before the intake starts, or records have no __value_schema_id; "
	}
	return fmt.Sprintf("teams.%s.sources.%s: {topic: %s, topics: {partitions: %d}}; %sthen start the processes. Until then, one that reads or writes %s makes the copy unusable: keep them stopped. "+
		"Own consumers of teams hear nothing of it: tell them to read the old topic to its end, and then to go on in the new one as stream/subscriber/CONTRACT.md says",
		r.team, r.source, r.cmd.To, r.cmd.Partitions, push, r.cmd.Topic)
}

// handsOver returns the step. What has gone over to a copy already cannot go over to another one.
func (r *rekeying) handsOver() planStep {
	for _, reader := range r.readers {
		if to := reader.GoneTo; to != "" {
			return planStep{"hand over", stepBlocked, fmt.Sprintf("%s has gone over to %s, a copy of %s, already: write topic: %[2]s for the source; "+
				"to have another number of partitions, or to go back, copy that one (forebay topics rekey %[2]s --partitions N --to TOPIC -c FILE)", reader.Subscription, to, r.cmd.Topic)}
		}
	}
	return planStep{"hand over", stepToDo, "the subscriptions' version lines, positions and waiting events in the ledger go over to " + r.cmd.To + ": --run does it. " +
		"Rejected records (conflict, quarantined, filtered) stay listed under " + r.cmd.Topic}
}

// lookUp finds the topic's id and end offsets in Kafka, and its readers in the ledger.
func (r *rekeying) lookUp(ctx context.Context) error {
	details, err := r.adm.ListTopics(kadm.WithAuthorizedOps(ctx), r.cmd.Topic) // this option bypasses the client's cache
	if err == nil {
		err = details[r.cmd.Topic].Err
	}
	if err != nil {
		return schemas.Errorf(schemas.Unavailable, "look up "+r.cmd.Topic, "%w", err)
	}
	r.from = ledger.Partition{Topic: r.cmd.Topic, TopicID: ledger.TopicID(details[r.cmd.Topic].ID)}
	for _, name := range r.subscriptions() {
		readers, err := r.ledgerOf(name).Readers(ctx, name, r.from.TopicID)
		if err != nil {
			return err
		}
		r.readers = append(r.readers, readers...)
	}
	r.records, r.starts, r.ends, err = topics.Unread(ctx, r.adm, r.cmd.Topic, r.positions())
	return err
}

// positions are the next offsets of the readers, by name. A subscription that has never run may begin anywhere in the topic: at 0.
func (r *rekeying) positions() map[string]map[int32]int64 {
	next := map[string]map[int32]int64{}
	for _, name := range r.subscriptions() {
		if !slices.ContainsFunc(r.readers, func(reader ledger.Reader) bool { return reader.Subscription == name }) {
			next[name] = nil
		}
	}
	for _, reader := range r.readers {
		next[readerName(reader)] = reader.Next
	}
	return next
}

// drainStep reports how far the step is after which nothing of the topic is left to run: what all ledgers still have open, and where readers
// are stopped.
func (r *rekeying) drainStep(ctx context.Context) (planStep, error) {
	var status []inbox.SubscriptionStatus
	for _, o := range r.opened {
		of, err := inbox.New(o.ledger).Subscriptions(ctx, "", "")
		if err != nil {
			return planStep{}, err
		}
		status = append(status, of...)
	}
	stops, err := r.stoppedPartitions(ctx)
	if err != nil {
		return planStep{}, err
	}
	for _, name := range r.subscriptions() {
		standings, err := inbox.New(r.ledgerOf(name)).Standings(ctx, name)
		if err != nil {
			return planStep{}, err
		}
		if text := r.passedOver(name, standings); text != "" {
			r.skipped = append(r.skipped, text)
		}
	}
	return r.drainStepOf(status, stops), nil
}

// passedOver says how many offsets of the topic, as the log has it, moves forward of a subscription have left out; empty: none. The copy lacks
// them, and no replay reads them once the topic is left.
func (r *rekeying) passedOver(name string, standings []inbox.Standing) string {
	var n int64
	for _, s := range standings {
		for _, k := range s.Skipped {
			if ledger.TopicID(s.TopicID) == r.from.TopicID {
				n += max(0, k[1]-max(k[0], r.starts[s.Partition]))
			}
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s has passed over %d offsets that the log has: the copy lacks them, so replay before what of them is to run", name, n)
}

// drainStepOf makes the drain step. Stops block it, in any case, and what a claim would stop for, or carry out. Open actions block it, and events in the gap buffer that no reader
// takes along, unless the operator leaves them open. Unread records do not block it: they are read from the copy.
func (r *rekeying) drainStepOf(status []inbox.SubscriptionStatus, stops []string) planStep {
	blocked := slices.Concat(stops, r.misplaced())
	openActions, waiting := r.open(status)
	detail := []string{"nothing is open"}
	if open := strings.Join(openActions, "; "); open != "" && r.cmd.LeaveOpen {
		detail[0] = open + ": they stay behind and never run"
	} else if open != "" {
		blocked = append(blocked, open+" (while the stream runs it runs what it can; --leave-open leaves the rest behind)")
	}
	leftBehind := waiting
	for _, reader := range r.readers {
		goesAlong := fmt.Sprintf("%s has %d records to read, from the copy then", reader.Subscription, r.unreadRecords(reader))
		if reader.Waiting > 0 {
			goesAlong += fmt.Sprintf(", and %d events that wait, which go along", reader.Waiting)
		}
		detail = append(detail, goesAlong)
		leftBehind -= reader.Waiting
	}
	detail = append(detail, r.skipped...)
	if leftBehind > 0 && !r.cmd.LeaveOpen {
		blocked = append(blocked, fmt.Sprintf("%d waiting events would stay behind. Either their subscription is not configured any more (--leave-open leaves them), "+
			"or the topic was created again (start the stream role first: it takes them over)", leftBehind))
	}
	if len(blocked) > 0 {
		return planStep{Step: "drain", State: stepBlocked, Detail: strings.Join(blocked, "; ")}
	}
	return planStep{Step: "drain", State: stepDone, Detail: strings.Join(detail, "; ")}
}

// misplaced returns a text for what a claim would find, and a copy would pass over: seeks, replays, and positions that the log does not have. Who reads a topic
// that has grown claims nothing until it is started again, and the new partitions not even then.
func (r *rekeying) misplaced() (list []string) {
	const start = "start the stream role, which stops there, and do what it says"
	for _, reader := range r.readers {
		if reader.Generation != 0 {
			continue
		}
		if reader.Seeks > 0 {
			list = append(list, fmt.Sprintf("%s has %d seeks that are not carried out yet: start the stream role, which does so, or take them back", reader.Subscription, reader.Seeks))
		}
		for _, id := range reader.Replays {
			list = append(list, fmt.Sprintf("replay %d of %s is under way: let it end, or cancel it", id, reader.Subscription))
		}
		for _, number := range slices.Sorted(maps.Keys(r.ends)) {
			next, known := reader.Next[number]
			switch first, end := r.starts[number], r.ends[number]; {
			case next > end:
				list = append(list, fmt.Sprintf("%s stands at %d in partition %d, above the log's end %d: "+start, reader.Subscription, next, number, end))
			case next < first && known:
				list = append(list, fmt.Sprintf("%d records of partition %d were deleted before %s had read them: "+start, first-next, number, reader.Subscription))
			case next < first && !r.cmd.LeaveOpen:
				list = append(list, fmt.Sprintf("%d records of partition %d were deleted before %s had read them (--leave-open goes on without them)",
					first-next, number, reader.Subscription))
			}
		}
	}
	return list
}

// open returns a text for each partition of the topic that has open actions, and how many events wait in all its partitions.
func (r *rekeying) open(status []inbox.SubscriptionStatus) (openActions []string, waiting int64) {
	for _, s := range status {
		if s.Topic != r.cmd.Topic {
			continue
		}
		waiting += s.Buffered
		if s.OpenActions+s.HeldActions > 0 {
			openActions = append(openActions, fmt.Sprintf("%s.%s has in partition %d %d actions to run and %d failed or parked",
				s.Team, s.Subscription, s.Partition, s.OpenActions, s.HeldActions))
		}
	}
	return openActions, waiting
}

// stoppedPartitions returns a text for each partition in which a subscription is stopped.
func (r *rekeying) stoppedPartitions(ctx context.Context) (list []string, err error) {
	for _, name := range r.subscriptions() {
		stops, err := r.ledgerOf(name).Stops(ctx, ledger.StopFilter{Subscription: name, Topic: r.cmd.Topic})
		if err != nil {
			return nil, err
		}
		for _, s := range stops {
			list = append(list, fmt.Sprintf("%s is stopped in partition %d: %s", name, s.Partition.Number, s.Detail))
		}
	}
	return list, nil
}

// unreadRecords counts the offsets from a reader's positions to the ends of the partitions.
func (r *rekeying) unreadRecords(reader ledger.Reader) (n int64) {
	for number, end := range r.ends {
		n += max(0, end-reader.Next[number])
	}
	return n
}

// stopStep is the step after which no process reads the topic: the subscriptions' groups have no members.
func (r *rekeying) stopStep(ctx context.Context) (planStep, error) {
	step := planStep{Step: "stop", State: stepDone, Detail: "no process reads the topic"}
	names := r.subscriptions()
	if len(names) == 0 {
		return step, nil
	}
	groups, err := r.adm.DescribeGroups(ctx, names...)
	if err != nil {
		return step, schemas.Errorf(schemas.Unavailable, "describe the groups", "%w", err)
	}
	var live []string
	for _, g := range groups.Sorted() {
		if n := len(g.Members); n > 0 {
			live = append(live, fmt.Sprintf("%s (%d members)", g.Group, n))
		}
	}
	if len(live) > 0 {
		step.State, step.Detail = stepBlocked, "stop the processes with the stream role: "+strings.Join(live, ", ")
	}
	return step, nil
}

// rekeyed is the outcome of a run.
type rekeyed struct {
	Topic         string       `json:"topic"`
	To            string       `json:"to"`
	Partitions    int32        `json:"partitions"`
	Records       int64        `json:"records"` // that were not read yet
	Subscriptions []handedOver `json:"subscriptions"`
	Switch        string       `json:"switch"` // how the configuration has to change now
	took          time.Duration
}

// handedOver is a subscription, in one generation, that goes on in the copy.
type handedOver struct {
	Subscription string `json:"subscription"`
	Generation   int32  `json:"generation"`
	Lines        int64  `json:"lines"`   // version lines that were moved
	Waiting      int64  `json:"waiting"` // events in the gap buffer, which the first claims of the copy take along
}

// run copies the topic and hands its readers over, unless a step of the plan is blocked.
func (r *rekeying) run(e *env, steps []planStep) error {
	for _, s := range steps {
		if s.State == stepBlocked {
			return schemas.Errorf(schemas.Conflict, "copy "+r.cmd.Topic, "%s: %s", s.Step, s.Detail)
		}
	}
	if err := r.checkTarget(e.ctx); err != nil {
		return err
	}
	began := time.Now()
	done := rekeyed{Topic: r.cmd.Topic, To: r.cmd.To, Partitions: r.cmd.Partitions, Switch: r.switchText()}
	copied, err := r.copy(e, func(c topics.Copied) (err error) {
		done.Subscriptions, err = r.handOver(e.ctx, c)
		return err
	})
	if err != nil {
		return err
	}
	done.Records = copied.Records
	done.took = time.Since(began)
	return printOne(e, done, done.To, func(w io.Writer) { showRekeyed(w, done) })
}

// checkTarget returns an error if a subscription reads the target topic already: then it must not be written again. A target that
// does not exist, or that an earlier run has left, is fine.
func (r *rekeying) checkTarget(ctx context.Context) error {
	details, err := r.adm.ListTopics(kadm.WithAuthorizedOps(ctx), r.cmd.To)
	d := details[r.cmd.To]
	if err == nil && !errors.Is(d.Err, kerr.UnknownTopicOrPartition) {
		err = d.Err
	}
	if err != nil {
		return schemas.Errorf(schemas.Unavailable, "look up "+r.cmd.To, "%w", err)
	}
	for _, name := range r.subscriptions() {
		readers, err := r.ledgerOf(name).Readers(ctx, name, ledger.TopicID(d.ID))
		if err != nil {
			return err
		}
		if len(readers) > 0 {
			return schemas.Errorf(schemas.Conflict, "copy "+r.cmd.Topic, "%s reads %s already; name another topic with --to", name, r.cmd.To)
		}
	}
	return nil
}

// handOver moves every reader's version lines and positions in the ledger to the copy.
func (r *rekeying) handOver(ctx context.Context, copied topics.Copied) ([]handedOver, error) {
	done := []handedOver{}
	for _, reader := range r.readers {
		lines, err := r.ledgerOf(reader.Subscription).HandOver(ctx, ledger.HandOver{Reader: reader, From: r.from,
			To:     ledger.Partition{Topic: r.cmd.To, TopicID: ledger.TopicID(copied.ID)},
			Begins: copied.Begins[readerName(reader)], Ends: copied.Ends})
		if err != nil {
			return done, err
		}
		done = append(done, handedOver{reader.Subscription, reader.Generation, lines, reader.Waiting})
	}
	return done, nil
}

// copy makes the target topic with the source topic's settings, copies what is unread and calls handOver with that.
func (r *rekeying) copy(e *env, handOver func(topics.Copied) error) (topics.Copied, error) {
	wanted := topics.Wanted(r.cfg, r.cfg.MaxBody)
	index := slices.IndexFunc(wanted, func(t topics.Topic) bool { return t.Name == r.cmd.Topic })
	to := wanted[index] // found: the topic is a configured source's
	to.Name, to.Partitions = r.cmd.To, r.cmd.Partitions
	p := e.progress()
	defer p.clear()
	return topics.Rekey{From: r.cmd.Topic, To: to, Client: app.KafkaOptions(r.cfg, config.RoleTopics), Readers: r.positions(), HandOver: handOver,
		RecordBytes: int32(r.cfg.MaxBody(r.team, r.source)) + topics.HeaderRoom,
		Progress:    func(n, of int64) { p.say(n, of, fmt.Sprintf("copied %d of %d records", n, of)) }}.Run(e.ctx)
}

// readerName names a reader in the copy's positions: SUBSCRIPTION/GENERATION.
func readerName(r ledger.Reader) string { return fmt.Sprintf("%s/%d", r.Subscription, r.Generation) }

// showRekeyed writes what was copied and handed over, and how the configuration has to change now.
func showRekeyed(w io.Writer, d rekeyed) {
	line := func(name, value string) { fmt.Fprintf(w, "%-13s %s\n", name, plain(value)) }
	line("topic", d.Topic)
	line("goes on in", fmt.Sprintf("%s, %d partitions", d.To, d.Partitions))
	line("records", strconv.FormatInt(d.Records, 10)+" that were not read yet")
	line("took", d.took.Round(time.Millisecond).String())
	for _, s := range d.Subscriptions {
		line("handed over", fmt.Sprintf("%s, %d version lines and %d events that wait", s.Subscription, s.Lines, s.Waiting))
	}
	line("now", d.Switch)
}

// supplied loads the file. One that leaves its servers to `forebay dev` gets those: while dev runs, its own, which tell how things stand; while it
// does not, ones on the data in the directory data (empty: the file's own place), so that there is something to work on. stop ends them.
func (f fileFlags) supplied(e *env, data string, roles ...config.Role) (cfg *config.Config, stop func(), err error) {
	o := f.options(e, roles...)
	if cfg, err = config.Load(o); err == nil || e.Supply == nil {
		return cfg, func() {}, err
	}
	o.Embedded = true
	cfg, failed := config.Load(o)
	if failed != nil {
		return nil, nil, err
	}
	stop, failed = e.Supply(e.ctx, DevOptions{Config: f.File, Data: data, Logger: e.log}, cfg)
	if failed != nil && !errors.Is(failed, fs.ErrNotExist) {
		err = failed
	}
	if failed != nil {
		return nil, nil, err
	}
	return cfg, stop, nil
}
