// Package counters is the counters that all processes share: how many units of a limit are used. A process takes units in one statement,
// before it uses them, so that all together never use more than the limit, whichever is killed. One small table; nothing else of the
// ledger rests on it.
package counters

import (
	"context"
	"time"

	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"
)

// Store reads and writes the table. Safe for concurrent use.
type Store struct{ db *pg.Pool }

// New returns a store on a pool.
func New(db *pg.Pool) *Store { return &Store{db} }

// Ask asks for units of one counter.
//
// A counter with Burst 0 counts in windows of Per, which begin at multiples of Per since 1970, by the database's clock: at most Limit units
// are given out in each. With a Burst it is a bucket of so many units, into which Limit flow in each Per.
type Ask struct {
	Name  string
	Limit int64         // above zero, below 2^53
	Per   time.Duration // whole microseconds, at least one, at most 366 days
	Burst int64
	// Want is what is needed. Where there is not as much, nothing is given.
	Want int64
	// Most is what else is taken to be used later, Want included: of a window at most a 64th of what is left in it, so that little of the
	// limit is out of use where a process is killed, and less and less the nearer the limit is.
	Most int64
	// Force counts Want as used whatever the limit is. Below zero it is given back: of a window, where Window is still the one that counts.
	Force  bool
	Window time.Time
}

// Grant is the answer to an Ask.
type Grant struct {
	Units  int64         // what was given
	Used   int64         // what is used by now, with what processes have taken and not yet used; of a bucket: what it lacks
	Window time.Time     // the window's beginning, by the database's clock
	Left   time.Duration // until the window ends; of a bucket that has not given anything: until Want is there
}

// count gives out units. Each name is there once, and rows are locked in the order of their names. A window that has ended is as good as a
// row that is not there. One that lies ahead goes on, where the clock was set back, or another statement began later and had the row first; but
// not one that is ahead by more than a window and a minute: it is from a clock that was wrong, and would count until its time comes.
const count = `WITH asked AS (
    SELECT a.*, CASE WHEN a.drain > 0 THEN now() ELSE
               to_timestamp(0) + ((extract(epoch FROM now()) * 1000000)::bigint / a.per * a.per) * interval '1 microsecond' END AS at
    FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bool[], $9::timestamptz[])
        AS a(name, cap, unit, drain, per, want, most, force, win))
INSERT INTO counters AS c (name, at, used, cap, unit, granted, until)
SELECT a.name, a.at, g.granted * a.unit, a.cap, a.unit, g.granted, a.at + a.per * interval '1 microsecond'
FROM asked a CROSS JOIN LATERAL (SELECT 0::bigint AS used, a.at AS since) d CROSS JOIN LATERAL (` + grant + `) g ORDER BY a.name
ON CONFLICT (name) DO UPDATE SET (at, used, cap, unit, granted, until) = (
    SELECT d.since, d.used + g.granted * a.unit, a.cap, a.unit, g.granted, d.since + a.per * interval '1 microsecond'
    FROM asked a
    CROSS JOIN LATERAL (SELECT c.at > a.at + (a.per + 60000000) * interval '1 microsecond' AS wrong) w
    CROSS JOIN LATERAL (SELECT CASE
            WHEN w.wrong THEN 0
            WHEN a.drain > 0 THEN greatest(0, c.used - a.drain
                * least(greatest(0, (extract(epoch FROM a.at - c.at) * 1000000)::bigint), c.used / a.drain + 1))
            WHEN c.at >= a.at THEN c.used
            ELSE 0 END AS used, CASE WHEN w.wrong THEN a.at ELSE greatest(c.at, a.at) END AS since) d
    CROSS JOIN LATERAL (` + grant + `) g
    WHERE a.name = EXCLUDED.name)
RETURNING name, granted, used, at, greatest(0, (extract(epoch FROM until - now()) * 1000000)::bigint)`

// grant is what is given to a, where d.used is used of the window that began at d.since.
const grant = `SELECT CASE
    WHEN a.force AND a.want >= 0 THEN a.want
    WHEN a.force AND a.win IS DISTINCT FROM d.since AND a.drain = 0 THEN 0
    WHEN a.force THEN greatest(a.want, -d.used / a.unit)
    WHEN (a.cap - d.used) / a.unit < a.want THEN 0
    WHEN a.drain > 0 THEN least((a.cap - d.used) / a.unit, greatest(a.want, a.most))
    ELSE greatest(a.want, least(a.most, (a.cap - d.used) / 64)) END AS granted`

// Count answers all asks, each with the grant at its index. Each name may be there once. Where it fails, what was asked for may be used all
// the same. Kind: Unavailable.
func (s *Store) Count(ctx context.Context, asks []Ask) ([]Grant, error) {
	n := len(asks)
	index := make(map[string]int, n)
	names, forced, windows := make([]string, n), make([]bool, n), make([]*time.Time, n)
	var columns [6][]int64 // cap, unit, drain, per, want, most
	for i := range asks {
		a := &asks[i]
		lim := a.bounds()
		index[a.Name], names[i], forced[i] = i, a.Name, a.Force
		for c, v := range []int64{lim.cap, lim.unit, lim.drain, lim.life, a.Want, a.Most} {
			columns[c] = append(columns[c], v)
		}
		if !a.Window.IsZero() {
			windows[i] = &a.Window
		}
	}
	rows, err := s.db.Query(ctx, count, names, columns[0], columns[1], columns[2], columns[3], columns[4], columns[5], forced, windows)
	grants := make([]Grant, n)
	var (
		name string
		g    Grant
		left int64
	)
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&name, &g.Units, &g.Used, &g.Window, &left}, func() error {
			a := &asks[index[name]]
			lim := a.bounds()
			g.Left = time.Duration(left) * time.Microsecond
			if lim.drain > 0 {
				g.Left = time.Duration(max(0, (a.Want*lim.unit-(lim.cap-g.Used)+lim.drain-1)/lim.drain)) * time.Microsecond
				g.Used = (g.Used + lim.unit - 1) / lim.unit
			}
			grants[index[name]] = g
			return nil
		})
	}
	if err != nil {
		return nil, pg.Unavailable("count what is used of limits", err)
	}
	return grants, nil
}

// bounds is a limit in whole numbers: a unit of a bucket is as many parts as Per has microseconds, of which Limit flow in each microsecond.
type bounds struct {
	cap, unit, drain int64
	life             int64 // microseconds after which the row says nothing any more
}

func (a *Ask) bounds() bounds {
	per := max(1, a.Per.Microseconds())
	if a.Burst == 0 {
		return bounds{cap: a.Limit, unit: 1, life: per}
	}
	return bounds{cap: a.Burst * per, unit: per, drain: a.Limit, life: a.Burst*per/a.Limit + 1}
}

// Used is what is used of a counter of windows.
type Used struct {
	Name  string
	Used  int64
	Limit int64         // as it was when units were taken last
	Left  time.Duration // until its window ends
}

// CountersUsed lists the counters of windows whose names begin with prefix and whose windows have not ended: those that are
// used most first, at most n. It is planned for its prefix each time: of one budget among many it reads a range of
// counters_pkey, where a plan for any prefix reads all counters. Kind: Unavailable.
func (s *Store) CountersUsed(ctx context.Context, prefix string, n int) ([]Used, error) {
	return s.listUsed(ctx, `SELECT name, used, cap, (extract(epoch FROM until - now()) * 1000000)::bigint AS left_us FROM counters
		WHERE name >= $1 AND name < $1 || U&'\+10FFFF' AND until > now() AND unit = 1
		ORDER BY used::numeric / greatest(cap, 1) DESC, name LIMIT $2`, prefix, n)
}

// CountersUsedOfEach is CountersUsed of those with at least share percent of their limits used, with at most n of those whose names have the second and the third word in common: of a budget and a source.
func (s *Store) CountersUsedOfEach(ctx context.Context, prefix string, share, n int) ([]Used, error) {
	return s.listUsed(ctx, `SELECT name, used, cap, (extract(epoch FROM until - now()) * 1000000)::bigint AS left_us FROM (SELECT name, used, cap, until,
			row_number() OVER (PARTITION BY split_part(name, ' ', 2), split_part(name, ' ', 3) ORDER BY used::numeric / greatest(cap, 1) DESC, name) AS place FROM counters
		WHERE name >= $1 AND name < $1 || U&'\+10FFFF' AND until > now() AND unit = 1 AND used::numeric * 100 >= cap::numeric * $2) c
		WHERE place <= $3 ORDER BY place, name`, prefix, share, n)
}

func (s *Store) listUsed(ctx context.Context, sql string, args ...any) (list []Used, err error) {
	rows, err := s.db.Query(ctx, sql, append([]any{pgx.QueryExecModeCacheDescribe}, args...)...)
	if err == nil {
		var u Used
		var left int64
		_, err = pgx.ForEachRow(rows, []any{&u.Name, &u.Used, &u.Limit, &left}, func() error {
			u.Left = time.Duration(left) * time.Microsecond
			list = append(list, u)
			return nil
		})
	}
	if err != nil {
		return nil, pg.Unavailable("list what is used of limits", err)
	}
	return list, nil
}

// CountersOf returns what is used of counters of windows, by their names; of those that nobody has used in the window that is there is none. Kind:
// Unavailable.
func (s *Store) CountersOf(ctx context.Context, names []string) (map[string]Used, error) {
	rows, err := s.db.Query(ctx, `SELECT name, used, cap, (extract(epoch FROM until - now()) * 1000000)::bigint AS left_us FROM counters
		WHERE name = ANY ($1) AND until > now() AND unit = 1`, names)
	all := map[string]Used{}
	if err == nil {
		var u Used
		var left int64
		_, err = pgx.ForEachRow(rows, []any{&u.Name, &u.Used, &u.Limit, &left}, func() error {
			u.Left = time.Duration(left) * time.Microsecond
			all[u.Name] = u
			return nil
		})
	}
	if err != nil {
		return nil, pg.Unavailable("read what is used of limits", err)
	}
	return all, nil
}

// ForgetCounters deletes the counters whose windows ended a minute ago or more, n at a time. It waits for no row: whoever counts locks several, by their
// names, and not by their times.
func (s *Store) ForgetCounters(ctx context.Context, n int64) error {
	for {
		done, err := s.db.Exec(ctx, `DELETE FROM counters WHERE name = ANY (ARRAY(SELECT name FROM counters WHERE until < now() - interval '1 minute' LIMIT $1 FOR UPDATE SKIP LOCKED))`, n)
		if err != nil {
			return pg.Unavailable("forget what was used of limits", err)
		}
		if done.RowsAffected() < n {
			return nil
		}
	}
}
