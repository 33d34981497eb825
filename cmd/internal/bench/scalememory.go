package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// memoryBar is how much memory a stream process may have with what scale lets it hold, in MiB.
const memoryBar = 400

// backlogSizes are the dimensions of what a stream process is made to hold.
type backlogSizes struct {
	partitions int
	body       int           // bytes of an event's body
	rest       time.Duration // a process is idle that does next to nothing for three times this
}

// measureMemory lets a stream process load its open actions, of a destination that does not answer, while as many events wait in gaps, and
// reports how much memory it has then. It is `forebay serve --roles stream` in a process of its own; broker, destination and producer are in
// this one.
func (b *scaleBench) measureMemory(ctx context.Context, r *Report) error {
	h, err := b.newBacklog(ctx, b.Load, b.Load)
	if err != nil {
		return err
	}
	defer h.close()
	b.logf("a stream process gets %d open actions and %d events that wait in gaps", b.Load, b.Load)
	p, err := h.serve(ctx, "stream")
	if err != nil {
		return err
	}
	defer p.stop()
	if err := h.produce(ctx, h.openAndWaiting()); err != nil {
		return err
	}
	if err := h.waitFull(ctx, p); err != nil {
		return p.explain(err)
	}
	if err := b.waitIdle(ctx, p.pid()); err != nil {
		return p.explain(err)
	}
	rest := residentMiB(p.pid(), "VmRSS")
	b.logf("the stream process has %.0f MiB at rest, %.0f MiB at most", rest, residentMiB(p.pid(), "VmHWM"))
	r.Settings["scale.memory"] = fmt.Sprintf("forebay serve --roles stream with %d open actions of a destination that does not answer and %d events waiting in gaps, "+
		"each of an entity of its own, bodies of %d bytes, %d partitions", b.Load, b.Load, b.backlog.body, b.backlog.partitions)
	r.Ratios = append(r.Ratios, atMost("scale/memory", "MiB resident, at rest, and allowed", rest, memoryBar))
	return nil
}

// restCPU is how much of its time a process at rest may use.
const restCPU = 0.05

// waitIdle waits until a process has used next to no processor time in three intervals in a row; it gives up after a hundred, or some minutes
// where they are short.
func (b *scaleBench) waitIdle(ctx context.Context, pid int) error {
	calm, before, patience := 0, cpuOf(pid, false), max(100*b.backlog.rest, 5*time.Minute)
	for begin := time.Now(); time.Since(begin) < patience; {
		if err := waitUntil(ctx, time.Now().Add(b.backlog.rest)); err != nil {
			return err
		}
		now := cpuOf(pid, false)
		if calm++; now-before > max(clockTick, time.Duration(restCPU*float64(b.backlog.rest))) {
			calm = 0
		}
		if before = now; calm == 3 {
			return nil
		}
	}
	return fmt.Errorf("the stream process did not come to rest within %s", patience)
}

// residentMiB reads a process's memory: VmRSS now, VmHWM at most so far; see proc(5). 0 where it is gone.
func residentMiB(pid int, what string) float64 {
	kib, _, _ := strings.Cut(procField(fmt.Sprintf("/proc/%d/status", pid), what), " ")
	n, _ := strconv.ParseFloat(kib, 64)
	return n / 1024
}

// waitFull waits until the ledger has all open actions and all waiting events of the backlog, and the process has loaded actions: as many
// as its lanes have room for, the rest stays in the ledger.
func (h *backlog) waitFull(ctx context.Context, p *process) error {
	conn, err := pgx.Connect(ctx, h.postgres)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	var open, loaded, waiting, parked int
	for open != h.count || waiting != h.waiting || loaded == 0 {
		select {
		case <-p.gone:
			return fmt.Errorf("the stream process has ended")
		default:
		}
		if err := waitUntil(ctx, time.Now().Add(100*time.Millisecond)); err != nil {
			return fmt.Errorf("%d actions are open, %d of them loaded, %d events wait in gaps and %d are parked, of %d and %d: %w", open, loaded, waiting, parked, h.count, h.waiting, err)
		}
		err := conn.QueryRow(ctx, `WITH own AS (SELECT f.id FROM forebay.fences f JOIN forebay.subscriptions s ON s.id = f.subscription WHERE s.name = $1)
			SELECT (SELECT coalesce(sum(next_lane_seq - 1), 0)::int FROM forebay.progress WHERE fence IN (TABLE own)),
			       count(*) FILTER (WHERE decision = 'buffered'), count(*) FILTER (WHERE decision = 'parked')
			FROM forebay.buffer WHERE fence IN (TABLE own)`, h.group()).Scan(&open, &waiting, &parked)
		if err != nil {
			return err
		}
		if loaded, err = h.openActions(ctx); err != nil {
			return err
		}
	}
	return nil
}
