package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/schemas"
)

// holeSizes are the dimensions of the part of the scenario replay that has holes.
type holeSizes struct {
	holes      int // events that never ran until fill
	entities   int // of the others; each hole is the only event of its own
	partitions int
	body       int // bytes of an event's body
}

// holeLog is a deployment whose subscription has decided many events, and left out some among them that its filter did not want: the holes.
type holeLog struct {
	holeSizes
	deployment
	count   int // events, holes among them
	name    string
	brokers []string
	came    *countingDestination
	conn    *pgx.Conn
	stream  *process
}

const holeTeam = "bench"

func (h *holeLog) topic() string { return "events." + holeTeam + "." + h.name }

// measureHoles has a stream process run all events but the holes, then has the filter want these too, and a replay find them: nothing may
// run but the holes, each once, as the destination sees it. At last the group is reset to the start, and nothing may run at all.
func (o Options) measureHoles(ctx context.Context, pg *pgServer, sizes holeSizes, r *Report) error {
	dir, err := os.MkdirTemp("", "forebay-bench-holes-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	h := &holeLog{holeSizes: sizes, deployment: deployment{postgres: pg.url}, count: o.Events, name: "holes-" + strconv.FormatInt(time.Now().UnixNano(), 36)}
	brokers, stopBroker, err := o.brokersIn(ctx, dir)
	if err != nil {
		return err
	}
	defer stopBroker()
	h.brokers = brokers
	if h.came, err = startCountingDestination(h.count); err != nil {
		return err
	}
	defer h.came.close()
	if h.conn, err = pgx.Connect(ctx, pg.url); err != nil {
		return err
	}
	defer h.conn.Close(context.WithoutCancel(ctx))
	if h.operator, err = rig.FindAddress(); err != nil {
		return err
	}
	h.config = filepath.Join(dir, "forebay.yaml")
	o.logf("a stream process gets %d events, and leaves out %d of them", h.count, h.holes)
	if err := h.decide(ctx); err != nil {
		return err
	}
	defer func() { h.stream.stop() }()
	return h.findHoles(ctx, o, r)
}

// holeConfig is the deployment.
const holeConfig = ordersConfig + `    destinations:
      agent: {type: http, url: "AGENT", allow_networks: [127.0.0.0/8]}
    subscriptions:
      NAME:
        sources: [NAME]
        types: [TYPES]
        begin: all
        start: first
        actions: [{name: run, to: agent}]
`

// configure writes the configuration, with a filter that wants these types.
func (h *holeLog) configure(types string) error {
	text := strings.NewReplacer("BROKERS", `"`+strings.Join(h.brokers, `", "`)+`"`, "OPERATOR", h.operator, "PARTITIONS", strconv.Itoa(h.partitions),
		"TEAM", holeTeam, "NAME", h.name, "AGENT", h.came.url, "TYPES", types).Replace(holeConfig)
	return os.WriteFile(h.config, []byte(text), 0o600)
}

// decide fills the topic, and has a stream process run all but the holes. Another one goes on, whose filter wants the holes too.
func (h *holeLog) decide(ctx context.Context) (err error) {
	if err := h.configure("order.changed"); err != nil {
		return err
	}
	for _, args := range [][]string{{"migrate", "-c", h.config}, {"topics", "apply", "-c", h.config}} {
		if err := h.command(ctx, args...); err != nil {
			return err
		}
	}
	if err := produce(ctx, h.brokers, h.topic(), h.events()); err != nil {
		return err
	}
	if h.stream, err = h.serve(ctx, "stream"); err != nil {
		return err
	}
	err = h.waitDone(ctx, h.count-h.holes)
	h.stream.stop()
	if err != nil {
		return h.stream.explain(err)
	}
	if err := h.check(0); err != nil {
		return err
	}
	if err := h.configure(`"order.*"`); err != nil {
		return err
	}
	h.stream, err = h.serve(ctx, "stream")
	return err
}

// isHole says which events are the holes: they lie evenly in the log.
func (h *holeLog) isHole(n int) bool {
	each := h.count / h.holes
	return n%each == each/2 && n/each < h.holes
}

func (h *holeLog) events() iter.Seq[*schemas.Event] {
	return func(yield func(*schemas.Event) bool) {
		for n := range h.count {
			if !yield(h.event(n)) {
				return
			}
		}
	}
}

// event returns event n. The others of an entity are its versions one by one.
func (h *holeLog) event(n int) *schemas.Event {
	each := h.count / h.holes
	others := n - min(h.holes, (n+each-each/2-1)/each) // before n
	kind, entity, rev := "order.changed", strconv.Itoa(others%h.entities), int64(others/h.entities+1)
	if h.isHole(n) {
		kind, entity, rev = "order.left-out", fmt.Sprintf("hole-%d", n), 1
	}
	now := time.Now().UTC()
	text := fmt.Sprintf(`{"type":"%s","order":{"id":"%s","rev":%d},"n":%d,"note":"`, kind, entity, rev, n)
	body := append([]byte(text), bytes.Repeat([]byte{'x'}, max(0, h.body-len(text)-2))...)
	body = append(body, `"}`...)
	return &schemas.Event{
		ID: fmt.Sprintf("%s-%d", h.name, n), Source: "/" + holeTeam + "/" + h.name, Type: kind, Entity: schemas.NewEntityKey(entity), Time: now, RecordedTime: now,
		DataContentType: "application/json", Version: schemas.Version{Kind: schemas.Sequence, Value: rev}, First: new(int64(1)), Payload: schemas.Snapshot,
		Hash: schemas.HashBody(body), Data: body,
	}
}

// check holds what the destination has seen to what may have run: every event but the holes once, and these so many times.
func (h *holeLog) check(holes uint8) error {
	lost, twice, wrong := 0, 0, 0
	for n, times := range h.came.counts() {
		want := uint8(1)
		if h.isHole(n) {
			if want = holes; times > want && want == 0 {
				wrong++
			}
		}
		if times < want {
			lost++
		} else if times > want && want > 0 {
			twice++
		}
	}
	if lost+twice+wrong > 0 {
		return fmt.Errorf("of %d events %d did not come to the destination, %d came again, and %d came that should not have run", h.count, lost, twice, wrong)
	}
	return nil
}

// waitDone waits until the subscription has read all events, the destination got so many, and the lanes hold none. It gives up if nothing
// of that changes for a minute.
func (h *holeLog) waitDone(ctx context.Context, actions int) error {
	const patience = time.Minute
	var before int64
	for deadline := time.Now().Add(patience); ; {
		var read int64
		err := h.conn.QueryRow(ctx, `SELECT coalesce(sum(p.next_offset), 0)::bigint FROM forebay.progress p
			JOIN forebay.fences f ON f.id = p.fence JOIN forebay.subscriptions s ON s.id = f.subscription WHERE s.name = $1`, holeTeam+"."+h.name).Scan(&read)
		if err != nil {
			return err
		}
		open, err := h.openActions(ctx)
		if err != nil {
			return err
		}
		came := h.came.total()
		if read == int64(h.count) && came >= actions && open == 0 {
			return nil
		}
		if done := read + int64(came-open); done > before {
			before, deadline = done, time.Now().Add(patience)
		}
		select {
		case <-h.stream.gone:
			return errors.New("the stream process has ended")
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d events are read, %d of %d actions came, lanes hold %d; nothing has changed for %s", read, h.count, came, actions, open, patience)
		}
		if err := waitUntil(ctx, time.Now().Add(20*time.Millisecond)); err != nil {
			return err
		}
	}
}

// fillItem is what `forebay replay` prints.
type fillItem struct {
	ID, State, Detail          string
	Records, Runs              int64
	Done, Applied, Late, Stale int64
	ByDecision                 map[string]int64 `json:"by_decision"`
}

// replay runs a command of forebay replay and reads what it prints.
func (h *holeLog) replay(ctx context.Context, args ...string) (item fillItem, err error) {
	out, err := h.ask(ctx, append(append([]string{"replay"}, args...), "-o", "json", "--url", "http://"+h.operator)...)
	if err == nil {
		if err = json.Unmarshal(out, &item); err != nil {
			err = fmt.Errorf("replay %s printed %s: %w", strings.Join(args, " "), out, err)
		}
	}
	return item, err
}

// findHoles plans a replay, runs it, and resets the group to the start, as an operator does.
func (h *holeLog) findHoles(ctx context.Context, o Options, r *Report) error {
	if err := h.waitReady(ctx, h.stream); err != nil {
		return h.stream.explain(err)
	}
	began := time.Now()
	plan, err := h.replay(ctx, "plan", "--subscription", holeTeam+"."+h.name, "--rate", "0")
	if err != nil {
		return h.stream.explain(err)
	}
	planned := time.Since(began)
	if plan.Records != int64(h.count) || plan.Runs != int64(h.holes) {
		return fmt.Errorf("the plan says that %d of %d events would run; there are %d of %d: %v", plan.Runs, plan.Records, h.holes, h.count, plan.ByDecision)
	}
	if err := h.check(0); err != nil {
		return fmt.Errorf("after a plan: %w", err)
	}
	began = time.Now()
	if _, err := h.replay(ctx, "start", plan.ID, "--reason", "the filter left them out"); err != nil {
		return h.stream.explain(err)
	}
	if err := h.command(ctx, "replay", "watch", plan.ID, "--url", "http://"+h.operator); err != nil {
		return h.stream.explain(err)
	}
	filled := time.Since(began)
	if err := h.waitDone(ctx, h.count); err != nil {
		return h.stream.explain(err)
	}
	got, err := h.replay(ctx, "get", plan.ID)
	if err != nil {
		return err
	}
	if got.State != "done" || got.Applied != int64(h.holes) || got.Done != int64(h.count-h.holes) || got.Late+got.Stale != 0 {
		return fmt.Errorf("of %d events with %d holes the replay says %+v", h.count, h.holes, got)
	}
	if err := h.check(1); err != nil {
		return fmt.Errorf("after fill: %w", err)
	}
	began = time.Now()
	err = h.command(ctx, "subscriptions", "seek", holeTeam+"."+h.name, "--to", "start", "--reason", "to measure it", "--url", "http://"+h.operator)
	if err == nil {
		err = h.waitDone(ctx, h.count)
	}
	if err != nil {
		return h.stream.explain(err)
	}
	rewound := time.Since(began)
	if err := h.check(1); err != nil {
		return fmt.Errorf("after a reset to the start: %w", err)
	}
	o.logf("of %d events fill ran the %d holes, each once: planned in %s, run in %s; read again after a reset in %s", h.count, h.holes,
		planned.Round(time.Millisecond), filled.Round(time.Millisecond), rewound.Round(time.Millisecond))
	r.Settings["replay.holes"] = fmt.Sprintf("forebay serve --roles stream, %d partitions, bodies of %d bytes, %d entities; the filter left out %d of %d events, evenly, and wants them later; "+
		"the run fails unless the destination sees nothing by the plan, each hole once by fill, no other event again, and nothing by a reset to the start", h.partitions, h.body, h.entities, h.holes, h.count)
	r.figure("replay/holes", "of "+strconv.Itoa(h.count)+" events, which fill has run, each once, and nothing else", float64(got.Applied))
	r.figure("replay/holes_plan", "s to plan", planned.Seconds())
	r.figure("replay/holes_fill", "s from the start of the replay to its end", filled.Seconds())
	r.figure("replay/holes_rewind", "s to read all again after a reset", rewound.Seconds())
	return nil
}
