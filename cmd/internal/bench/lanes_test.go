package bench

import (
	"testing"
	"time"
)

func TestLanesScenario(t *testing.T) {
	o := tiny(t)
	r := newReport(o)
	s := laneSizes{entities: 200, oneConns: []int{1, 2}, manyConns: []int{1, 2}, insert: 20, claim: 100, maxWaiting: 10, body: 256}
	if err := runLanes(t.Context(), o, s, r); err != nil {
		t.Fatal(err)
	}
	checkReport(t, r, `lanes/one_by_one lanes/batch_100 lanes/guarded`,
		`lanes/cpu_forebay lanes/cpu_postgres lanes/wal lanes/guarded_cpu_forebay lanes/guarded_cpu_postgres lanes/guarded_wal lanes/one_by_one_cpu_postgres lanes/one_by_one_wal lanes/batch_100_cpu_postgres lanes/batch_100_wal`)
	for i, bar := range []float64{lanesOneBar, lanesBatchBar, lanesGuardedBar} {
		if x := r.Ratios[i]; x.Bar != bar || x.AtMost || len(x.Rounds) != o.Rounds {
			t.Errorf("%+v", x)
		}
	}
	for _, name := range []string{"lanes.ours", "lanes.guarded", "lanes.one_by_one", "lanes.batch_100", "lanes.rivals"} {
		if r.Settings[name] == "" {
			t.Errorf("no setting %s: %v", name, r.Settings)
		}
	}
}

// What is counted is what was done: every job that was inserted, once.
func TestQueueRivalDoesEveryJob(t *testing.T) {
	pg := opened(t)
	conn := connected(t, pg.url)
	for _, claim := range []int{1, 100} {
		q := &queueRival{url: pg.url, meter: pg.meter, seed: 7, inserters: 2, batch: 100, entities: 100, conns: 3, claim: claim, maxWaiting: 10, length: 50 * time.Millisecond}
		got, err := q.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		jobs := number(t, conn, `SELECT count(*) FROM rival_queue.jobs`)
		done := number(t, conn, `SELECT count(*) FROM rival_queue.jobs WHERE status = 'done' AND attempts = 1 AND done_at IS NOT NULL`)
		if jobs < int64(q.batch) || done != jobs || got.events != jobs {
			t.Errorf("claims of %d: %d jobs, %d done, %d counted", claim, jobs, done, got.events)
		}
		if n := number(t, conn, `SELECT count(*) - count(DISTINCT event_id) FROM rival_queue.jobs`); n != 0 {
			t.Errorf("%d repeats were inserted", n)
		}
	}
}
