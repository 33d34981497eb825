package integration

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// watch looks at the ledger beside the processes, again and again: what it says makes the checker stricter, and excuses
// nothing. A look sees what was committed before it began, and nothing that was committed after it ended.
type watch struct {
	t     *testing.T
	url   string
	stop  context.CancelFunc
	ended sync.WaitGroup

	mu     sync.Mutex
	conn   *pgx.Conn // nil: not connected
	looked time.Time // when the last look began
	done   map[string]time.Time
	claims map[int32][]claimed
	places map[string]int32 // partitions by entity
	epochs map[int32]int64
}

// claimed is a partition's change of hands, written after the look before it began and before its own look ended.
type claimed struct {
	after, before time.Time
	times         int64 // by how many claims the epoch moved
}

// watch begins to watch a subscription.
func (r *deployment) watch(subscription string) *watch {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &watch{t: r.t, url: r.dbURL, stop: cancel, done: map[string]time.Time{}, claims: map[int32][]claimed{},
		places: map[string]int32{}, epochs: map[int32]int64{}}
	name := r.team + "." + subscription
	if err := w.look(ctx, name); err != nil {
		r.t.Fatalf("look at the ledger: %v", err)
	}
	w.ended.Go(func() {
		for ctx.Err() == nil {
			_ = w.look(ctx, name) // Postgres may be down: then there is nothing to see
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	r.t.Cleanup(w.end)
	return w
}

func (w *watch) end() {
	w.stop()
	w.ended.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn != nil {
		_ = w.conn.Close(context.Background())
		w.conn = nil
	}
}

const (
	lookDone = `WITH done AS (
	SELECT window_id, fence, bucket * 1024 + unnest(lanes) AS seq FROM forebay.completions
	UNION ALL SELECT window_id, fence, lane_seq FROM forebay.actions WHERE NOT open)
SELECT e.event_id, e.entity, f.partition, d.seq IS NOT NULL FROM forebay.events e
JOIN forebay.fences f ON f.id = e.fence JOIN forebay.subscriptions s ON s.id = f.subscription
LEFT JOIN done d ON d.window_id = coalesce(e.lane_window, e.window_id) AND d.fence = e.fence AND d.seq = e.lane_seq
WHERE s.name = $1 AND e.lane_seq IS NOT NULL`
	lookClaims = `SELECT f.partition, f.epoch FROM forebay.fences f JOIN forebay.subscriptions s ON s.id = f.subscription WHERE s.name = $1`
)

func (w *watch) look(ctx context.Context, name string) (err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	defer func() {
		if err != nil && w.conn != nil {
			_ = w.conn.Close(ctx)
			w.conn = nil
		}
	}()
	if w.conn == nil {
		if w.conn, err = pgx.Connect(ctx, w.url); err != nil {
			return err
		}
	}
	began := time.Now()
	epochs := map[int32]int64{}
	if err := w.rows(ctx, lookClaims, name, func(rows pgx.Rows) error {
		var partition int32
		var epoch int64
		err := rows.Scan(&partition, &epoch)
		epochs[partition] = epoch
		return err
	}); err != nil {
		return err
	}
	var ended []string
	if err := w.rows(ctx, lookDone, name, func(rows pgx.Rows) error {
		var event, entity string
		var partition int32
		var done bool
		err := rows.Scan(&event, &entity, &partition, &done)
		w.places[entity] = partition
		if done {
			ended = append(ended, event)
		}
		return err
	}); err != nil {
		return err
	}
	w.note(began, time.Now(), epochs, ended)
	return nil
}

func (w *watch) rows(ctx context.Context, sql, name string, each func(pgx.Rows) error) error {
	rows, err := w.conn.Query(ctx, sql, name)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (w *watch) note(began, ended time.Time, epochs map[int32]int64, done []string) {
	for partition, epoch := range epochs {
		if times := epoch - w.epochs[partition]; times > 0 {
			w.claims[partition] = append(w.claims[partition], claimed{after: w.looked, before: ended, times: times})
		}
	}
	w.epochs, w.looked = epochs, began
	for _, event := range done {
		if _, ok := w.done[event]; !ok {
			w.done[event] = ended
		}
	}
}

// look looks once more, where the load is watched: at a kill, the ledger says all that there will be.
func (r *deployment) look() {
	r.t.Helper()
	if err := r.watched.look(r.t.Context(), r.team+".triage"); err != nil {
		r.t.Fatalf("look at the ledger: %v", err)
	}
}

// fault is a time in which something was killed, or hung, or was not yet what it was before.
type fault struct{ from, to time.Time }

// excuses are the rules by which a call may come again, without seconds of grace:
//
//   - never after the ledger was seen to say that its event is done;
//   - only where its partition changed hands between the two calls, in the time of a fault: a claim gives up what is
//     under way, or answered and not committed. One change of hands repeats one call of an entity, its head;
//   - never after a newer call of the entity has begun, since the next head starts after the commit (verdict.overtaken).
func (w *watch) excuses(v verdict, faults []fault) (wrong []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	used := map[string]map[int]int64{} // repeats by entity and claim
	for _, c := range v.repeated {
		if at, ok := w.done[c.event]; ok && c.begin.After(at) {
			wrong = append(wrong, fmt.Sprintf("%s of %s was done at %s, by the ledger, and was called again %s later", c.event, c.entity, clockOf(at), c.begin.Sub(at)))
			continue
		}
		partition := w.places[c.entity]
		if used[c.entity] == nil {
			used[c.entity] = map[int]int64{}
		}
		at := slices.IndexFunc(w.claims[partition], func(k claimed) bool {
			return !k.before.Before(c.before.begin) && !k.after.After(c.begin) && inFault(k, faults)
		})
		for at >= 0 && at < len(w.claims[partition]) && used[c.entity][at] >= w.claims[partition][at].times {
			at++
		}
		if at < 0 || at >= len(w.claims[partition]) || w.claims[partition][at].after.After(c.begin) || !inFault(w.claims[partition][at], faults) {
			wrong = append(wrong, fmt.Sprintf("%s of %s was called at %s (answered %s) and again at %s, and no fault moved partition %d in between: claims %s, faults %s",
				c.event, c.entity, clockOf(c.before.begin), clockOf(c.before.end), clockOf(c.begin), partition, w.claims[partition], faults))
			continue
		}
		used[c.entity][at]++
	}
	return wrong
}

func inFault(k claimed, faults []fault) bool {
	return slices.ContainsFunc(faults, func(f fault) bool { return !k.before.Before(f.from) && !k.after.After(f.to) })
}

func clockOf(at time.Time) string {
	if at.IsZero() {
		return "never"
	}
	return at.Format("15:04:05.000")
}

func (k claimed) String() string {
	return fmt.Sprintf("%d between %s and %s", k.times, clockOf(k.after), clockOf(k.before))
}

func (f fault) String() string { return clockOf(f.from) + " to " + clockOf(f.to) }
