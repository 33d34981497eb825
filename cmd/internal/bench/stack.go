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
	deployment
	pg        *pgServer
	brokerPID int
	team      string
	dir       string
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

// startStack starts the agent, writes the configuration with parts, in which words in capitals are filled in, prepares
// ledger and topics with forebay's own commands, and starts an intake and a stream process, and waits until both are
// ready.
func (o Options) startStack(ctx context.Context, pg *pgServer, team string, partitions int, parts string) (_ *stack, err error) {
	w := &stack{
		deployment: deployment{postgres: pg.url}, pg: pg, brokerPID: o.kafkaPID, team: team,
		processes: map[string]int{}, running: map[string]*process{},
	}
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
	w.operator = "127.0.0.1:0" // until a process needs one
	w.config = filepath.Join(w.dir, "forebay.yaml")
	text := strings.NewReplacer("BROKERS", `"`+strings.Join(o.Kafka, `", "`)+`"`, "PARTITIONS", strconv.Itoa(partitions),
		"TEAM", team, "SECRET", stackSecret, "AGENT", w.agent.url()).Replace(stackConfig + parts)
	if err := os.WriteFile(w.config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	for _, args := range [][]string{{"migrate", "-c", w.config}, {"topics", "apply", "-c", w.config}} {
		if err := w.command(ctx, args...); err != nil {
			return nil, err
		}
	}
	for _, role := range []string{"intake", "stream"} { // the latter's operator address is the one that stays
		if err := w.startRole(ctx, role); err != nil {
			return nil, err
		}
	}
	if w.brokerPID != 0 {
		w.processes["broker"] = w.brokerPID
	}
	return w, nil
}

func (w *stack) startRole(ctx context.Context, role string) (err error) {
	if w.operator, err = rig.FindAddress(); err != nil {
		return err
	}
	p, err := w.serve(ctx, role)
	if err != nil {
		return err
	}
	w.running[role], w.processes[role] = p, p.pid()
	if err := w.waitReady(ctx, p); err != nil {
		return p.explain(fmt.Errorf("the %s process: %w", role, err))
	}
	return nil
}

// waitDrained waits until n deliveries have reached the agent, the ledger has an action of a subscription for each, and the lanes have no
// open action left. It gives up if nothing of that changes for two minutes.
func (w *stack) waitDrained(ctx context.Context, subscription string, n int64) error {
	conn, err := pgx.Connect(ctx, w.postgres)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	const patience = 2 * time.Minute
	var before int64
	for deadline := time.Now().Add(patience); ; {
		came, err := w.agent.came(ctx)
		if err != nil {
			return err
		}
		var wanted int64
		err = conn.QueryRow(ctx, `SELECT coalesce(sum(next_lane_seq - 1), 0)::bigint FROM forebay.progress p
			JOIN forebay.fences f ON f.id = p.fence JOIN forebay.subscriptions s ON s.id = f.subscription WHERE s.name = $1`,
			w.team+"."+subscription).Scan(&wanted)
		if err != nil {
			return err
		}
		open, err := w.openActions(ctx)
		if err != nil {
			return err
		}
		if came == n && wanted == n && open == 0 {
			return nil
		}
		if done := came + wanted - int64(open); done > before {
			before, deadline = done, time.Now().Add(patience)
		}
		if time.Now().After(deadline) {
			return w.running["stream"].explain(fmt.Errorf("of %d deliveries %d came to the agent; the ledger has %d actions, lanes hold %d; "+
				"nothing has changed for %s", n, came, wanted, open, patience))
		}
		if err := waitUntil(ctx, time.Now().Add(100*time.Millisecond)); err != nil {
			return err
		}
	}
}

// stop ends the processes of forebay.
func (w *stack) stop() {
	for _, role := range []string{"intake", "stream"} {
		if p := w.running[role]; p != nil {
			p.stop()
		}
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
		name: name, senders: w.senders(conns, mix), agent: w.agent, processes: w.processes,
		waitDrained: func(ctx context.Context, n int64) error { return w.waitDrained(ctx, "all", n) },
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

// transitTimes returns, in ascending order, the times from a delivery's acceptance to its arrival at the agent, and how many were accepted and
// did not arrive.
func transitTimes(accepted, came []receipt) (list []time.Duration, lost int) {
	at := make(map[uint64]int64, len(came))
	for _, r := range came {
		at[r.Delivery] = r.At
	}
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
