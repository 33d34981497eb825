package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
)

// The scenario recovery is about kill -9 with default settings, under a load that leaves room: of the only stream process, which is started
// again at once, and of one of three.

// What the project allows, in microseconds: from the start of the process that takes over to its first call; from the kill to the last call
// for what was accepted within the second after it. At this rate an entity comes round every four seconds: none of these waits for a call that was
// under way, which is repeated only after the destination's timeout.
const (
	restartWithin = 3_000_000
	ofThreeWithin = 5_000_000
)

type recoverySizes struct {
	rate       float64 // deliveries/s
	warmUp     time.Duration
	conns      int
	entities   int // of a connection
	partitions int
}

var recoveryScale = recoverySizes{rate: 100, warmUp: 5 * time.Second, conns: 8, entities: 50, partitions: 12}

func (z recoverySizes) run(ctx context.Context, o Options, r *Report) error {
	pg, stop, err := o.servers(ctx, r)
	if err != nil {
		return err
	}
	defer stop()
	var restarts, threes, during, before []float64
	for i := range o.Rounds {
		got, err := z.round(ctx, o, pg)
		if err != nil {
			return err
		}
		restarts, threes = append(restarts, got.restart), append(threes, got.three)
		during, before = append(during, got.during), append(before, got.before)
		o.logf("recovery round %d: first call %.2f s after a restart, last call %.2f s after the kill of one of three; p99 of the others %.2f ms, before %.2f ms",
			i+1, got.restart/1e6, got.three/1e6, got.during/1e3, got.before/1e3)
	}
	r.Ratios = append(r.Ratios,
		against("recovery/restart", "us from the start of the process behind a kill -9 to its first call, and allowed", restartWithin, restarts).most(),
		against("recovery/of_three", "us from kill -9 of one of three to the last call of what was accepted in the second after it, and allowed", ofThreeWithin, threes).most(),
		ratioOf("recovery/others_p99", "us from accept to action by p99, of the partitions that the other two of three had, after the kill and before it", troubleBar, during, before).most())
	r.Settings["recovery"] = fmt.Sprintf("%.0f deliveries/s of 1 KiB, GitHub preset, signed, %d partitions, %d entities; kafka.session_timeout and all else as by default; "+
		"processes, topic and group new for every round", z.rate, z.partitions, z.conns*z.entities)
	return nil
}

// recovered is what a round has shown, in microseconds.
type recovered struct{ restart, three, during, before float64 }

// round kills the only stream process and starts another, then has three and kills one.
func (z recoverySizes) round(ctx context.Context, o Options, pg *pgServer) (got recovered, err error) {
	w, err := o.startStack(ctx, pg, "recovery", z.partitions, e2eConfig, forebayRoles...)
	if err != nil {
		return got, err
	}
	defer w.close()
	s := w.senders(z.conns, []share{{kind: 0, weight: 1, entities: z.entities}})
	s.interval = time.Duration(float64(time.Second) / z.rate)
	var killed, again time.Time
	var others []*process
	kept := map[int32]bool{} // the partitions that the others have at the kill
	defer func() {
		for _, p := range others {
			p.stop()
		}
	}()
	processes := ctx // which outlive the load
	err = s.runWhile(ctx, func(ctx context.Context) error {
		if err := waitUntil(ctx, time.Now().Add(z.warmUp)); err != nil {
			return err
		}
		w.running["stream"].kill()
		again = time.Now()
		if err := w.startRole(processes, "stream"); err != nil {
			return err
		}
		for n := range 2 {
			p, err := w.serve(processes, "stream")
			if err != nil {
				return err
			}
			others = append(others, p)
			if err := p.waitRunning(ctx, z.partitions/(n+2)); err != nil {
				return err
			}
		}
		if err := waitUntil(ctx, time.Now().Add(z.warmUp)); err != nil {
			return err
		}
		for _, p := range others {
			if err := p.addRunning(ctx, kept); err != nil {
				return err
			}
		}
		killed = time.Now()
		w.running["stream"].kill()
		return waitUntil(ctx, killed.Add(z.warmUp))
	})
	if err != nil {
		return got, err
	}
	return z.judge(ctx, w, s.takeAccepted(), again, killed, kept)
}

// judge waits until all that was accepted has come, and returns how long after again the first came, and after killed the last of what was
// accepted in the second behind it; and the p99 of what is in kept partitions, since killed and in as long before it.
func (z recoverySizes) judge(ctx context.Context, w *stack, accepted []receipt, again, killed time.Time, kept map[int32]bool) (got recovered, err error) {
	_, list, err := w.agent.collect(ctx, func(_ agentReport, came []receipt) (bool, string) {
		_, lost := transitTimes(accepted, came)
		return lost == 0, fmt.Sprintf("%d of %d deliveries did not come", lost, len(accepted))
	})
	if err != nil {
		return got, err
	}
	came := arrivals(list)
	first, last := int64(0), killed.UnixNano()
	for _, at := range came {
		if at > again.UnixNano() && (first == 0 || at < first) {
			first = at
		}
	}
	var during, before []time.Duration
	for _, a := range accepted {
		since, took := time.Duration(a.At-killed.UnixNano()), time.Duration(came[a.Delivery]-a.At)
		if since > 0 && since < time.Second {
			last = max(last, came[a.Delivery])
		}
		switch {
		case !kept[z.partitionOf(a.Delivery)]:
		case since > 0:
			during = append(during, took)
		case since > -z.warmUp:
			before = append(before, took)
		}
	}
	if len(during) == 0 || len(before) == 0 {
		return got, fmt.Errorf("of the others' partitions %v nothing was accepted, before the kill or after it", kept)
	}
	return recovered{float64(first-again.UnixNano()) / 1000, float64(last-killed.UnixNano()) / 1000, p99(during), p99(before)}, nil
}

// partitionOf is where a delivery is in the topic.
func (z recoverySizes) partitionOf(delivery uint64) int32 {
	entity := schemas.NewEntityKey(fmt.Sprint(77000000+kindOf(delivery)), fmt.Sprint(88000000+entityOf(delivery)))
	return record.PartitionOf([]byte(entity), int32(z.partitions))
}

// addRunning adds the partitions that a process runs.
func (p *process) addRunning(ctx context.Context, to map[int32]bool) error {
	values, err := p.metric(ctx, "forebay_stream_lag_records")
	for labels := range values {
		_, text, _ := strings.Cut(labels, `partition="`)
		text, _, _ = strings.Cut(text, `"`)
		n, wrong := strconv.ParseInt(text, 10, 32)
		to[int32(n)], err = true, errors.Join(err, wrong)
	}
	return err
}

// waitRunning waits until a process runs so many partitions.
func (p *process) waitRunning(ctx context.Context, n int) error {
	return p.explain(waitFor(ctx, func() (bool, string, error) {
		values, err := p.metric(ctx, "forebay_stream_partitions")
		running := 0
		for labels, v := range values {
			if strings.Contains(labels, `state="running"`) {
				running += int(v)
			}
		}
		return running == n, fmt.Sprintf("a process runs %d partitions and should %d", running, n), err
	}))
}
