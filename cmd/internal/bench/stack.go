package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// stack is everything that an event passes: an intake, a broker, a stream process, Postgres and an agent, each in a
// process of its own. close ends it, except for broker and Postgres, which are the scenario's.
type stack struct {
	pg        *pgServer
	team      string
	dir       string
	config    string              // the file, which may name ${env:INTAKE} and ${env:OPERATOR}
	intake    string              // its address
	processes map[string]int      // by what they are: intake, stream, agent, broker
	running   map[string]*process // those of forebay
	agent     agentProcess
}

const (
	stackSource = "github"
	stackSecret = "a-secret-of-the-bench"
)

// stackConfig is the deployment's head; the words in capitals are filled in. What follows are destinations and
// subscriptions.
const stackConfig = `version: 1
kafka: {brokers: [BROKERS]}
postgres: {url: "${env:FOREBAY_POSTGRES_URL}"}
listen: {intake: "${env:INTAKE}", operator: "${env:OPERATOR}"}
topics: {partitions: PARTITIONS, replication: 1, retention: 1d}
teams:
  TEAM:
    sources:
      github: {preset: github, secrets: [SECRET]}
`

// servers starts the broker and the Postgres of a scenario that needs both, unless o names them.
func (o *Options) servers(ctx context.Context, r *Report) (pg *pgServer, stop func(), err error) {
	stopKafka, err := o.startKafka(ctx)
	if err != nil {
		return nil, nil, err
	}
	if pg, err = o.openPostgres(ctx, r); err != nil {
		stopKafka()
		return nil, nil, err
	}
	return pg, func() { pg.close(); stopKafka() }, nil
}

// startStack starts the agent, writes the configuration with parts, in which words in capitals are filled in, for a team that no run before has
// had, prepares ledger and topics with forebay's own commands, and starts a process of each role.
func (o Options) startStack(ctx context.Context, pg *pgServer, what string, partitions int, parts string, roles ...string) (_ *stack, err error) {
	w := &stack{pg: pg, team: what + "-" + strconv.FormatInt(time.Now().UnixNano(), 36), processes: map[string]int{}, running: map[string]*process{}}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.dir, err = os.MkdirTemp("", "forebay-bench-whole-"); err != nil {
		return nil, err
	}
	if w.agent, err = startAgent(ctx); err != nil {
		return nil, err
	}
	w.processes["agent"] = w.agent.PID()
	if w.intake, err = rig.FindAddress(); err != nil {
		return nil, err
	}
	w.config = filepath.Join(w.dir, "forebay.yaml")
	text := strings.NewReplacer("BROKERS", `"`+strings.Join(o.Kafka, `", "`)+`"`, "PARTITIONS", strconv.Itoa(partitions),
		"TEAM", w.team, "SECRET", stackSecret, "AGENT", w.agent.url()).Replace(stackConfig + parts)
	if err := os.WriteFile(w.config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	for _, args := range [][]string{{"migrate", "-c", w.config}, {"topics", "apply", "-c", w.config}} {
		if err := w.command(ctx, args...); err != nil {
			return nil, err
		}
	}
	for _, role := range roles {
		if err := w.startRole(ctx, role); err != nil {
			return nil, err
		}
	}
	if o.kafkaPID != 0 {
		w.processes["broker"] = o.kafkaPID
	}
	return w, nil
}

func (w *stack) startRole(ctx context.Context, role string) error {
	p, err := w.serve(ctx, role)
	if err != nil {
		return fmt.Errorf("the %s process: %w", role, err)
	}
	w.running[role], w.processes[role] = p, p.pid()
	return nil
}

// waitLedger waits for what done asks: how many actions of the subscription all the ledger has ever had, how many events wait there, and how
// many open actions the stream process has loaded.
func (w *stack) waitLedger(ctx context.Context, done func(actions, waiting, loaded int64) bool) error {
	conn, err := pgx.Connect(ctx, w.pg.url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	stream := w.running["stream"]
	return stream.explain(waitFor(ctx, func() (bool, string, error) {
		var actions, waiting int64
		err := conn.QueryRow(ctx, `WITH own AS (SELECT f.id FROM forebay.fences f JOIN forebay.subscriptions s ON s.id = f.subscription WHERE s.name = $1)
			SELECT (SELECT coalesce(sum(next_lane_seq - 1), 0)::bigint FROM forebay.progress WHERE fence IN (TABLE own)),
			       (SELECT count(*) FROM forebay.buffer WHERE fence IN (TABLE own))`, w.team+".all").Scan(&actions, &waiting)
		if err != nil {
			return false, "", err
		}
		loaded, err := stream.openActions(ctx)
		return done(actions, waiting, loaded), fmt.Sprintf("the ledger has %d actions, of which lanes hold %d, and %d events wait", actions, loaded, waiting), err
	}))
}

// waitDrained waits until n deliveries have reached the agent, the ledger has an action for each, and the lanes have no open action left.
func (w *stack) waitDrained(ctx context.Context, n int64) error {
	if err := w.running["stream"].explain(w.agent.waitCame(ctx, n)); err != nil {
		return err
	}
	return w.waitLedger(ctx, func(actions, _, loaded int64) bool { return actions == n && loaded == 0 })
}

// stop ends the processes of forebay.
func (w *stack) stop() {
	for _, p := range w.running {
		p.stop()
	}
}

func (w *stack) close() {
	w.stop()
	if w.agent.Child != nil {
		w.agent.Stop()
	}
	os.RemoveAll(w.dir)
}

// pipeline is the way of deliveries to the subscription all.
func (w *stack) pipeline(name string, conns int, mix []share) pipeline {
	return pipeline{
		name: name, senders: w.senders(conns, mix), agent: w.agent, processes: w.processes, waitDrained: w.waitDrained,
	}
}

// senders returns senders to the intake.
func (w *stack) senders(conns int, mix []share) *senders { return w.sendersTo(w.intake, conns, mix) }

// sendersTo returns senders of the same deliveries to another intake.
func (w *stack) sendersTo(addr string, conns int, mix []share) *senders {
	begin := time.Now().Add(-30 * 24 * time.Hour)
	return &senders{
		addr: addr, conns: conns, mix: mix,
		newTemplate: func() *requestTemplate { return newRequestTemplate(w.team, stackSource, stackSecret, begin) },
	}
}

// arrivals are the times at which deliveries came.
func arrivals(came []receipt) map[uint64]int64 {
	at := make(map[uint64]int64, len(came))
	for _, r := range came {
		at[r.Delivery] = r.At
	}
	return at
}

// transitTimes returns, in ascending order, the times from a delivery's acceptance to its arrival at the agent, and how many were accepted and
// did not arrive.
func transitTimes(accepted, came []receipt) (list []time.Duration, lost int) {
	at := arrivals(came)
	for _, r := range accepted {
		if t, ok := at[r.Delivery]; ok {
			list = append(list, time.Duration(max(0, t-r.At))) // the action may come before the answer has been read
		} else {
			lost++
		}
	}
	slices.Sort(list)
	return list, lost
}
