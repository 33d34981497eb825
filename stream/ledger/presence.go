package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// presence tells processes that died from those that live. The connection that listens for commands holds a session's advisory lock: Postgres
// frees it when that connection ends, which is at once where a process dies, and by keepalive (see pg.Deadlines) where its machine does. The
// rows of members name the lock of each member of a group. Every beat asks over the same connection whose lock is free, and what is [news].
//
//	the process                                        whoever looks
//	takes a lock of a new name, writes its rows
//	an answer of every beat: present for lease
//	                                                   a lock is free
//	no answer: not present, nothing is begun           it has been for lease: the row is judged
//	connected again, under a new lock: rows that       the member leaves the group, the row is deleted
//	are not judged are its own again
//
// So a member is judged only after it has ceased to take itself for present, and who was judged is never present again: the row decides. A
// process that is frozen keeps its connection. After a restart, a crash or a failover of the server all locks are free at once, and where a proxy
// ended, many: members of before have grace to come back. Who joins and has no row a while later has lost Postgres, and leaves by itself: nobody else
// could take it out.
type presence struct {
	db      *Pool
	channel string
	log     *slog.Logger
	now     func() time.Time

	// Of the connection's goroutine.
	session int64               // the backend's process id
	server  time.Time           // since when no session of the server's was ended by its own end
	again   bool                // it was connected before, and has not looked since it is again
	free    map[int64]time.Time // until when members are not judged whose locks are free
	news    news

	mu       sync.Mutex
	lock     int64     // 0: no connection holds one
	answered time.Time // when the last answered beat was sent
	members  map[int32]*entry
	watchers map[int32]func(absent []string)
}

const (
	lease   = 3 * pg.BeatEvery
	grace   = 20 * time.Second
	unknown = 10 * pg.BeatEvery // from then on, see [Namespace.Unknown]
)

// entry is the member of a subscription's group that this process is.
type entry struct {
	member string
	since  time.Time // when it was entered
	wrote  bool      // its row is there, or may be
	there  bool      // its row was there
	lock   int64     // that its row has; 0: not known
	judged bool      // somebody takes it out of the group
}

var errPooled = errors.New("two connections are one session of the server, as behind a pooler in transaction mode, where a session's lock is nobody's: " +
	"write Postgres' own address, or that of a pooler in session mode")

func newPresence(db *Pool, channel string, log *slog.Logger) *presence {
	return &presence{db: db, channel: channel, log: log, now: time.Now, members: map[int32]*entry{}, watchers: map[int32]func([]string){},
		news: news{tell: func(string) {}}}
}

// Enter says that this process is a member of the subscription's group, instead of the one that it was. With the next beat every process
// can tell when this one has died. Empty is none.
func (n *Namespace) Enter(member string) {
	p := n.ledger.presence
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := p.members[n.id]; {
	case member == "":
		delete(p.members, n.id)
	case e == nil || e.member != member:
		p.members[n.id] = &entry{member: member, since: p.now()}
	}
}

// Present reports whether the member that was entered cannot have been taken out of its group by another process. It is false while Postgres
// does not answer. Of one that was not entered, nobody takes it out.
func (n *Namespace) Present(member string) bool {
	p := n.ledger.presence
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.members[n.id]
	if e == nil || e.member != member || !e.wrote {
		return true
	}
	now := p.now()
	age := max(now.Sub(p.answered), now.Round(0).Sub(p.answered.Round(0))) // by the wall too: it goes on while the machine is suspended
	return !e.judged && e.lock != 0 && e.lock == p.lock && age < lease
}

// Unknown reports whether the member was entered a while ago, and its row could not be written since: nobody can tell when its process has died, or
// that it has lost Postgres.
func (n *Namespace) Unknown(member string) bool {
	p := n.ledger.presence
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.members[n.id]
	return e != nil && e.member == member && !e.there && p.now().Sub(e.since) >= unknown
}

// Absent calls tell with the members of the group that are to be taken out, since their processes are gone or were taken for gone: with
// every beat, until each is forgotten, or stop is called. One of them may be this process's own. tell must not wait. One caller at a time.
func (n *Namespace) Absent(tell func(members []string)) (stop func()) {
	p := n.ledger.presence
	p.mu.Lock()
	p.watchers[n.id] = tell
	p.mu.Unlock()
	unlisten := n.ledger.commandListeners.Add(leftPayload(n.id), func() {}) // has the connection open
	return func() {
		p.mu.Lock()
		delete(p.watchers, n.id)
		p.mu.Unlock()
		unlisten()
	}
}

// Left calls notify when a member of the group was forgotten, and at times for nothing, until stop is called. notify must not wait.
func (n *Namespace) Left(notify func()) (stop func()) {
	return n.ledger.commandListeners.Add(leftPayload(n.id), notify)
}

// ForgetMember deletes what is kept of a member that is not in the group any more, and tells those who wait for that; see [Namespace.Left].
func (n *Namespace) ForgetMember(ctx context.Context, member string) error {
	p := n.ledger.presence
	_, err := p.db.Exec(ctx, `-- presence: the member has left
WITH gone AS (DELETE FROM members WHERE subscription = $1 AND member = $2 RETURNING 1)
SELECT pg_notify($3, $4) FROM gone`, n.id, member, p.channel, leftPayload(n.id))
	if err != nil {
		return fmt.Errorf("forget member %s of %s: %w", member, n.spec.Name, pg.Redact(err))
	}
	return nil
}

// Processes returns how many processes run subscriptions. Kind: Unavailable.
func (l *Ledger) Processes(ctx context.Context) (n int, err error) {
	err = l.quick.QueryRow(ctx, `-- presence: how many
SELECT count(DISTINCT presence) FROM members WHERE NOT judged`).Scan(&n)
	if err != nil {
		return 0, Unavailable("count processes", err)
	}
	return n, nil
}

func leftPayload(id int32) string { return strconv.Itoa(int(id)) + " left" }

// serverSince is since when no session of the server was ended with all others. A crash of one session ends all, and the server goes on under its old
// start time; its statistics begin anew.
const serverSince = `greatest(pg_postmaster_start_time(), (SELECT stats_reset FROM pg_stat_bgwriter))`

// Began is of [pg.Beat]: it takes a lock.
func (p *presence) Began(ctx context.Context, conn *pgx.Conn) error {
	lock, sent := rand.Int64N(1<<62)+1, p.now()
	if err := conn.QueryRow(ctx, `-- presence: the lock
SELECT pg_backend_pid(), `+serverSince+` FROM pg_advisory_lock($1)`, lock).Scan(&p.session, &p.server); err != nil {
		return err
	}
	p.again = p.free != nil
	p.free, p.news.known = map[int64]time.Time{}, nil
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lock, p.answered = lock, sent
	return nil
}

// Ended is of [pg.Beat].
func (p *presence) Ended() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lock = 0
}

// Beat is of [pg.Beat].
func (p *presence) Beat(ctx context.Context, conn *pgx.Conn) error {
	if err := p.write(ctx, conn); err != nil {
		return err
	}
	absent, err := p.look(ctx, conn)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, members := range absent {
		if tell := p.watchers[id]; tell != nil {
			tell(members)
		}
	}
	return nil
}

// write writes the rows of members that do not have this connection's lock yet. One that was judged meanwhile is not written again.
func (p *presence) write(ctx context.Context, conn *pgx.Conn) error {
	p.mu.Lock()
	lock := p.lock
	todo := map[int32]*entry{}
	for id, e := range p.members {
		if e.lock != lock && !e.judged {
			e.wrote, e.lock = true, 0
			todo[id] = e
		}
	}
	p.mu.Unlock()
	for id, e := range todo {
		tag, err := conn.Exec(ctx, `-- presence: a member
INSERT INTO members AS m (subscription, member, presence, server) VALUES ($1, $2, $3, $4)
ON CONFLICT (subscription, member) DO UPDATE SET presence = excluded.presence, server = excluded.server WHERE NOT m.judged`, id, e.member, lock, p.server)
		if err != nil {
			return err
		}
		p.mu.Lock()
		e.lock, e.there, e.judged = lock, true, tag.RowsAffected() == 0
		p.mu.Unlock()
	}
	return nil
}

// absentRow is a member that may have to leave.
type absentRow struct {
	Subscription int32
	Member       string
	Presence     int64
	Judged, Same bool   // Same: the server that gave its lock has not ended since
	News         string // see [news]; empty: a member, or the connection's own row
}

// look asks whose locks are free, judges those that have been for long enough, tells what is new, and returns who is to leave, by subscription.
func (p *presence) look(ctx context.Context, conn *pgx.Conn) (map[int32][]string, error) {
	p.mu.Lock()
	lock, watched := p.lock, make([]int32, 0, len(p.watchers))
	for id := range p.watchers {
		watched = append(watched, id)
	}
	p.mu.Unlock()
	sent := p.now()
	// A lock that is free is had by the statement for a moment, shared, so that all who look find it free.
	rows, err := conn.Query(ctx, `-- presence: members, of a few processes, and whose locks are free
WITH known AS MATERIALIZED (SELECT DISTINCT presence FROM members WHERE subscription = ANY ($1) AND presence <> $2),
	free AS MATERIALIZED (SELECT presence FROM known WHERE pg_try_advisory_xact_lock_shared(presence))
SELECT m.subscription, m.member, m.presence, m.judged, m.server = $3 AS same, '' AS news
FROM members m WHERE m.subscription = ANY ($1) AND (m.judged OR m.presence IN (SELECT presence FROM free))
UNION ALL SELECT 0, '', pg_backend_pid(), false, true, ''
UNION ALL SELECT subscription, '', n, false, true, what FROM (`+newsRead+`) AS news`, watched, lock, p.server)
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[absentRow])
	if err != nil {
		return nil, err
	}
	absent, free := map[int32][]string{}, map[int64]time.Time{}
	list = p.news.take(list)
	for _, m := range list {
		due, known := p.free[m.Presence]
		switch {
		case known:
		case m.Same && !p.again:
			due = p.now().Add(lease)
		default:
			due = p.now().Add(grace)
		}
		switch {
		case m.Subscription == 0 && m.Presence != p.session:
			return nil, errPooled
		case m.Subscription == 0:
		case !m.Judged && sent.Before(due):
			free[m.Presence] = due
		case m.Judged:
			absent[m.Subscription] = append(absent[m.Subscription], m.Member)
		default:
			free[m.Presence] = due
			if err := p.judge(ctx, conn, m, absent); err != nil {
				return nil, err
			}
		}
	}
	p.free, p.again = free, false
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lock == lock {
		p.answered = sent
	}
	return absent, nil
}

// judge marks the row of a member whose process is taken for gone, unless that has written it again.
func (p *presence) judge(ctx context.Context, conn *pgx.Conn, m absentRow, absent map[int32][]string) error {
	tag, err := conn.Exec(ctx, `-- presence: a member is to leave
UPDATE members SET judged = true WHERE subscription = $1 AND member = $2 AND presence = $3 AND NOT judged`, m.Subscription, m.Member, m.Presence)
	if err == nil && tag.RowsAffected() > 0 {
		absent[m.Subscription] = append(absent[m.Subscription], m.Member)
		p.log.WarnContext(ctx, "a process is gone whose member is still in its group: it is taken out", "member", m.Member)
	}
	return err
}
