package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// meter reads what a run costs on one Postgres.
type meter struct {
	url string
	pid int // the postmaster's; 0: the server's processor time cannot be read
}

// measured is the figures of the measured part of a run, without its preparation and its end.
type measured struct {
	events  int64
	elapsed time.Duration
	wal     int64         // bytes
	own     time.Duration // this process's processor time
	server  time.Duration // Postgres's, with its background processes
	// parts are the processor times of other processes, by what they are.
	parts map[string]time.Duration
}

// around runs do, which returns how many events it handled, and measures what was used meanwhile.
func (m meter) around(ctx context.Context, do func() (events int64, err error)) (measured, error) {
	conn, err := pgx.Connect(ctx, m.url)
	if err != nil {
		return measured{}, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	wal, err := walBytes(ctx, conn)
	if err != nil {
		return measured{}, err
	}
	own, server, begin := ownCPU(), m.server(), time.Now()
	events, err := do()
	got := measured{events: events, elapsed: time.Since(begin), own: ownCPU() - own, server: m.server() - server}
	after, walErr := walBytes(ctx, conn)
	got.wal = after - wal
	return got, errors.Join(err, walErr)
}

func (m meter) server() time.Duration {
	if m.pid == 0 {
		return 0
	}
	return cpuOf(m.pid, true)
}

// walBytes is how much WAL the server has written since its beginning.
func walBytes(ctx context.Context, conn *pgx.Conn) (n int64, err error) {
	err = conn.QueryRow(ctx, `SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint`).Scan(&n)
	return n, err
}

// rate is events per second.
func (m measured) rate() float64 { return float64(m.events) / m.elapsed.Seconds() }

// side is one side of a comparison, and the figures of all its rounds.
type side struct {
	name     string
	run      func(context.Context) (measured, error) // one round
	measured                                         // their sum
	rates    []float64                               // of each
}

// turns say how sides take theirs.
type turns struct {
	scenario string
	warm     int // the first rounds, which are not counted
	// back has every second round go backwards: what one leaves to Postgres (checkpoints, vacuum) falls on the next.
	back bool
}

// inTurns runs one side after the other in every round.
func (o Options) inTurns(ctx context.Context, t turns, sides ...*side) error {
	for i := range t.warm + o.Rounds {
		var rates []string
		for _, s := range sides {
			m, err := s.run(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			if i >= t.warm {
				s.add(m)
			}
			rates = append(rates, fmt.Sprintf("%s %.0f/s", s.name, m.rate()))
		}
		o.logf("%s round %d: %s", t.scenario, i+1-t.warm, strings.Join(rates, ", "))
		if t.back {
			slices.Reverse(sides)
		}
	}
	return nil
}

func (s *side) add(m measured) {
	s.events += m.events
	s.elapsed += m.elapsed
	s.wal += m.wal
	s.own += m.own
	s.server += m.server
	if s.parts == nil {
		s.parts = map[string]time.Duration{}
	}
	for part, used := range m.parts {
		s.parts[part] += used
	}
	s.rates = append(s.rates, m.rate())
}

// serverCosts reports what an event costs Postgres, ourCosts also what it costs this process. name is what the names
// of the costs begin with.
func (m measured) serverCosts(r *Report, name string) {
	r.cost(name+"cpu_postgres", "us", float64(m.server.Microseconds()), m.events)
	r.cost(name+"wal", "bytes", float64(m.wal), m.events)
}

func (m measured) ourCosts(r *Report, name string) {
	r.cost(name+"cpu_forebay", "us", float64(m.own.Microseconds()), m.events)
	m.serverCosts(r, name)
}
