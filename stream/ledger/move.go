package ledger

// A subscription goes to another ledger, with all that belongs to it (movetables.go). No transaction spans two databases, so a mark in each,
// a row of moves, says how far it is, and each step may be repeated:
//
//	mark    nobody runs it in the new ledger from here on            new: moves
//	freeze  nor in the old one, and its owners are fenced            old: subscriptions, fences (locked), moves
//	number  which id in the new one is for which of the old one      new: subscriptions, effects, plans, fences, windows, replays, moves
//	copy    table by table, each in a transaction with its mark      new: the table, moves
//	open    the new one's mark goes                                  old: fences (locked); new: subscription_pauses, counters, subscriptions, moves
//	forget  the rows of the old one are deleted; its mark stays      old: all of these
//
//	old    new      what is so
//	-      -        nothing has begun
//	-      comes    nothing is frozen
//	goes   comes    it is being copied
//	goes   has it   it is in the new ledger; rows of the old one may be left
//	goes   -        the new one came back from a backup of before: nothing has begun, unless rows of the old one are gone
//	ended  -        they are gone
//
// The new ledger has it where its subscriptions.move_began is that of the old one's mark.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// Move takes a subscription to another ledger. Nothing of it may run meanwhile.
type Move struct {
	Subscription     string // "<team>.<subscription>"
	From, To         *Ledger
	FromName, ToName string                             // what refusals call them
	Progress         func(table string, done, of int64) // in rows; nil: nobody is told

	settle time.Duration // lease, a field for tests
}

// MoveState is how far a move is.
type MoveState string

// The states of a move.
const (
	MoveNew    MoveState = "new"    // nothing is copied
	MoveBegun  MoveState = "begun"  // it was broken off while rows were copied
	MoveBack   MoveState = "back"   // one from To to From was broken off, and is taken back
	MoveCopied MoveState = "copied" // it is in To; rows of From may be left
	MoveDone   MoveState = "done"
)

// MovePlan is what a move would do.
type MovePlan struct {
	State  MoveState
	Rows   []MovedRows
	Runs   []string // why it may not be begun: processes run the subscription
	Open   []string // and what has to end first
	Target string   // and why the new ledger cannot take it; empty: it can
	Behind []string // pauses that hold it up in the old ledger, and stay there
}

// MovedRows is how many rows of a table belong to the subscription.
type MovedRows struct {
	Table string
	Rows  int64
}

// blocked is the first reason why a move cannot go on.
func (p *MovePlan) blocked() string {
	for _, why := range slices.Concat(p.Runs, p.Open) {
		return why
	}
	return p.Target
}

// moveMark is a row of moves.
type moveMark struct {
	Name      string // of the subscription
	Comes     bool
	Other     [16]byte
	OtherName string
	Began     time.Time
	Ended     *time.Time
	IDs       *movedIDs
	Stood     *string
	Copied    []string // of one that goes: its rows here may be gone
}

// of reports whether there is a mark that leads to or from a ledger.
func (m *moveMark) of(comes bool, other [16]byte) bool {
	return m != nil && m.Comes == comes && m.Other == other
}

// readMark returns the mark of a subscription; nil if there is none.
func readMark(ctx context.Context, from querier, subscription string) (*moveMark, error) {
	return markWhere(ctx, from, `subscription = $1`, subscription)
}

func markWhere(ctx context.Context, from querier, where string, of any) (*moveMark, error) {
	m := &moveMark{}
	err := from.QueryRow(ctx, `SELECT subscription, comes, other, other_name, began_at, ended_at, ids, stood, copied FROM moves WHERE `+where, of).
		Scan(&m.Name, &m.Comes, &m.Other, &m.OtherName, &m.Began, &m.Ended, &m.IDs, &m.Stood, &m.Copied)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return m, err
}

// notMoved returns why a subscription may not run in this ledger: it has gone to another one, or is on its way. It may come back, so whoever asks
// tries again.
func notMoved(ctx context.Context, from querier, op, subscription string) error {
	m, err := readMark(ctx, from, subscription)
	if err != nil || m == nil {
		return err
	}
	return pg.Refuse(schemas.Errorf(schemas.Unavailable, op, "%s", m.says()))
}

// says tells where the subscription is, and what to do to have it run.
func (m *moveMark) says() string {
	at := m.Began.UTC().Format(time.RFC3339)
	switch {
	case m.Comes:
		return fmt.Sprintf("it is being moved here from %s since %s: it runs once `forebay subscriptions move %s` is through; run that again if it was broken off", m.OtherName, at, m.Name)
	case m.Ended == nil:
		return fmt.Sprintf("it is being moved to %s since %s, or is there already: run `forebay subscriptions move %s` again until it says that it is done, and run the subscription with the file that names that ledger",
			m.OtherName, at, m.Name)
	}
	return fmt.Sprintf("it was moved to %s on %s: run it with the file that names that ledger, or bring it back with `forebay subscriptions move %s`", m.OtherName, at, m.Name)
}

// What an operator's word is about, for [NotMoving]: a subscription's name, fences (an array of their ids), an approval, a replay.
const (
	AboutSubscription = `SELECT $1`
	AboutFences       = `SELECT s.name FROM fences f JOIN subscriptions s ON s.id = f.subscription WHERE f.id = ANY ($1)`
	AboutApproval     = `SELECT s.name FROM approvals p JOIN subscriptions s ON s.id = p.subscription WHERE p.id = $1`
	AboutReplay       = `SELECT s.name FROM replays r JOIN subscriptions s ON s.id = r.subscription WHERE r.id = $1`
)

// NotMoving returns why an operator's word on a subscription cannot be taken in this ledger, of kind Conflict: while it is moved, what is written here
// would be lost where it is copied already. No move begins before tx ends.
func NotMoving(ctx context.Context, tx pgx.Tx, op, about string, of any) error {
	// The lock first, and then a statement of its own: one that waits for a lock goes on with what it saw before.
	if _, err := tx.Exec(ctx, `SELECT FROM subscriptions WHERE name IN (`+about+`) ORDER BY id FOR KEY SHARE`, of); err != nil {
		return err
	}
	m, err := markWhere(ctx, tx, `ended_at IS NULL AND subscription IN (`+about+`)`, of)
	if err != nil || m == nil {
		return err
	}
	return pg.Refuse(schemas.Errorf(schemas.Conflict, op, "%s; then ask again", m.says()))
}

// mover is a move under way, with a connection to each ledger that nobody else uses.
type mover struct {
	Move
	from, to   *pgxpool.Conn
	old, new   *moveMark
	ids        *movedIDs
	done, rows int64 // copied, and in all
}

const moveTries = 12 // of its lock, some seconds

// start connects to both ledgers and reads how far the move is. One move of a subscription runs at a time. end gives the connections back.
func (m Move) start(ctx context.Context) (v *mover, state MoveState, end func(), err error) {
	v = &mover{Move: m}
	closed := func(c *pgxpool.Conn) { // with its lock
		if c != nil {
			_ = c.Conn().Close(context.WithoutCancel(ctx))
			c.Release()
		}
	}
	end = func() { closed(v.from); closed(v.to) }
	defer func() {
		if err != nil {
			end()
		}
	}()
	if m.From.id == m.To.id {
		return v, "", end, schemas.Errorf(schemas.Invalid, "", "both files give %s the same ledger", m.Subscription)
	}
	if v.from, err = m.From.sweep.Acquire(ctx); err != nil {
		return v, "", end, err
	}
	if v.to, err = m.To.sweep.Acquire(ctx); err != nil {
		return v, "", end, err
	}
	for _, c := range []*pgxpool.Conn{v.from, v.to} {
		alone := false
		for try := 0; !alone; try++ { // the server may not have noticed yet that a move was killed
			if err := pg.Backoff(ctx, try); err != nil {
				return v, "", end, err
			}
			if err := c.QueryRow(ctx, `SELECT pg_try_advisory_lock(hashtextextended('forebay move ' || current_schema() || ' ' || $1, 0))`, m.Subscription).Scan(&alone); err != nil {
				return v, "", end, err
			}
			if !alone && try == moveTries {
				return v, "", end, schemas.Errorf(schemas.Conflict, "", "another `forebay subscriptions move` of %s is under way", m.Subscription)
			}
		}
	}
	state, err = v.look(ctx)
	return v, state, end, err
}

// look reads both marks.
func (v *mover) look(ctx context.Context) (state MoveState, err error) {
	if v.old, err = readMark(ctx, v.from, v.Subscription); err != nil {
		return "", err
	}
	if v.new, err = readMark(ctx, v.to, v.Subscription); err != nil {
		return "", err
	}
	refuse := func(format string, args ...any) error { return schemas.Errorf(schemas.Conflict, "", format, args...) }
	goes, has := v.old.of(false, v.To.id), false
	if goes {
		if err := v.to.QueryRow(ctx, `SELECT EXISTS (SELECT FROM subscriptions WHERE name = $1 AND move_began = $2)`, v.Subscription, v.old.Began).Scan(&has); err != nil {
			return "", err
		}
	}
	switch {
	case v.new != nil && !v.new.Comes && v.new.Ended == nil && (len(v.new.Copied) > 0 || !v.old.of(true, v.To.id)):
		return "", refuse("it is being moved from %s to %s, or is there already: end that move first", v.ToName, v.new.OtherName)
	case v.old.of(true, v.To.id):
		return MoveBack, nil
	case v.old != nil && v.old.Comes:
		return "", refuse("it is being moved to %s from %s: end that move first", v.FromName, v.old.OtherName)
	case v.new != nil && v.new.Comes && v.new.Other != v.From.id:
		return "", refuse("it is being moved to %s from %s: end that move first", v.ToName, v.new.OtherName)
	case goes && v.old.Ended != nil:
		return MoveDone, nil
	case goes && v.new != nil && !v.new.Comes && v.new.Other != v.From.id:
		return "", refuse("it has gone on from %s to %s", v.ToName, v.new.OtherName)
	case has:
		return MoveCopied, nil
	case goes && len(v.old.Copied) > 0:
		return "", refuse("%s had it whole and has lost it, and rows of %s are gone: restore one of the two", v.ToName, v.FromName)
	case goes && v.new.of(true, v.From.id):
		return MoveBegun, nil
	case v.old != nil && !goes:
		return "", refuse("it was moved from %s to %s", v.FromName, v.old.OtherName)
	}
	var known bool
	if err := v.from.QueryRow(ctx, `SELECT EXISTS (SELECT FROM subscriptions WHERE name = $1)`, v.Subscription).Scan(&known); err != nil {
		return "", err
	}
	if !known {
		return "", schemas.Errorf(schemas.NotFound, "", "%s knows no subscription %s: it never ran there", v.FromName, v.Subscription)
	}
	return MoveNew, nil
}

// failed makes an error of a move.
func (m Move) failed(err error) error {
	op := "move " + m.Subscription
	if e, ok := errors.AsType[*schemas.Error](err); ok {
		return &schemas.Error{Kind: e.Kind, Op: op, Err: err}
	}
	return Unavailable(op, err)
}

// Plan says what Run would do, and changes nothing.
func (m Move) Plan(ctx context.Context) (p MovePlan, err error) {
	v, state, end, err := m.start(ctx)
	if err != nil {
		return p, m.failed(err)
	}
	defer end()
	if p, err = v.plan(ctx, state); err != nil {
		return p, m.failed(err)
	}
	return p, nil
}

func (v *mover) plan(ctx context.Context, state MoveState) (p MovePlan, err error) {
	p.State = state
	if state == MoveDone {
		return p, nil
	}
	if p.Runs, err = v.running(ctx); err != nil {
		return p, err
	}
	if state == MoveNew {
		if p.Target, err = v.occupied(ctx); err != nil {
			return p, err
		}
		if p.Open, err = texts(ctx, v.from, moveOpen, v.Subscription); err != nil {
			return p, err
		}
	}
	if p.Behind, err = v.behind(ctx); err != nil {
		return p, err
	}
	p.Rows, err = v.count(ctx)
	for _, r := range p.Rows {
		v.rows += r.Rows
	}
	return p, err
}

// Run moves the subscription, or ends what another run has left: it may be broken off anywhere. It returns the plan that it has carried out.
// Kinds: Conflict while something of it runs or has to end first, or the new ledger has the subscription; NotFound, Unavailable.
func (m Move) Run(ctx context.Context) (p MovePlan, err error) {
	v, state, end, err := m.start(ctx)
	if err != nil {
		return p, m.failed(err)
	}
	defer end()
	if p, err = v.plan(ctx, state); err == nil {
		err = v.run(ctx, p)
	}
	if err != nil {
		return p, m.failed(err)
	}
	return p, nil
}

func (v *mover) run(ctx context.Context, p MovePlan) error {
	if why := p.blocked(); why != "" {
		return schemas.Errorf(schemas.Conflict, "", "%s", why)
	}
	switch p.State {
	case MoveDone:
		return nil
	case MoveBack:
		return v.takeBack(ctx)
	case MoveNew:
		if err := v.begin(ctx); err != nil {
			return err
		}
	}
	if p.State != MoveCopied {
		if err := v.copyAll(ctx); err != nil {
			return err
		}
		if err := v.open(ctx); err != nil {
			return err
		}
	}
	if _, err := v.from.Exec(ctx, `UPDATE moves SET copied = '{all}' WHERE subscription = $1`, v.Subscription); err != nil {
		return err
	}
	if err := v.forget(ctx, v.From, v.from); err != nil {
		return err
	}
	return v.in(ctx, v.From, v.from, func(tx *pg.Tx) error {
		for _, t := range lastTables {
			if _, err := tx.Exec(ctx, `DELETE FROM `+t.name+` t WHERE `+v.where(t)); err != nil {
				return err
			}
		}
		return exactly(tx.Exec(ctx, `UPDATE moves SET ended_at = now() WHERE subscription = $1`, v.Subscription))
	})
}

// moveHeld counts the members of a subscription's group whose processes live, or may come back after a restart of the server.
const moveHeld = `WITH known AS MATERIALIZED (SELECT DISTINCT m.presence, m.server FROM members m JOIN subscriptions s ON s.id = m.subscription WHERE s.name = $1)
SELECT count(*) FROM known WHERE NOT pg_try_advisory_xact_lock_shared(presence)
    OR server <> ` + serverSince + ` AND now() < ` + serverSince + ` + $2::interval`

// moveOpen says what has to end before a subscription can be moved: what destinations say later is for the ledger that is named in their
// tokens, and who runs a replay counts on its number.
const moveOpen = `SELECT count(*) || ' actions are under way at their destinations, which report to this ledger: pause the subscription, and wait for the results before its processes are stopped'
FROM subscriptions s JOIN fences f ON f.subscription = s.id JOIN actions a ON a.fence = f.id AND a.open AND a.status = 'processing' WHERE s.name = $1 HAVING count(*) > 0
UNION ALL SELECT 'replay ' || r.id || ' is under way: let it end, or cancel it'
FROM subscriptions s JOIN replays r ON r.subscription = s.id WHERE s.name = $1 AND EXISTS (SELECT FROM replay_parts y WHERE y.replay = r.id AND y.ended_at IS NULL)`

// running says where processes run the subscription.
func (v *mover) running(ctx context.Context) (list []string, err error) {
	for _, at := range []struct {
		conn *pgxpool.Conn
		name string
	}{{v.from, v.FromName}, {v.to, v.ToName}} {
		var n int
		if err := at.conn.QueryRow(ctx, moveHeld, v.Subscription, grace).Scan(&n); err != nil {
			return nil, err
		}
		if n > 0 {
			list = append(list, fmt.Sprintf("processes run it with %s (%d): stop them", at.name, n))
		}
	}
	return list, nil
}

// occupied says why the new ledger cannot take the subscription: it has positions of it that are not those of an earlier move away, or a pause,
// in whose place that of the old ledger would come.
func (v *mover) occupied(ctx context.Context) (why string, err error) {
	var known, paused bool
	err = v.to.QueryRow(ctx, `SELECT EXISTS (SELECT FROM subscriptions s JOIN fences f ON f.subscription = s.id JOIN progress p ON p.fence = f.id WHERE s.name = $1),
		EXISTS (SELECT FROM subscription_pauses WHERE subscription = $1 AND ended_at IS NULL)`, v.Subscription).Scan(&known, &paused)
	switch {
	case known && (v.new == nil || v.new.Comes):
		why = fmt.Sprintf("it has run with %s, which has positions of its own for it: name a ledger that does not know it", v.ToName)
	case paused:
		why = fmt.Sprintf("it is paused with %s: end that pause; one with %s goes along", v.ToName, v.FromName)
	}
	return why, err
}

// movePauses are the pauses that keep a subscription from acting and are not its own.
const movePauses = `SELECT destination FROM pauses p WHERE ended_at IS NULL AND (starts_with(destination, $2)
    OR EXISTS (SELECT FROM effects x JOIN subscriptions s ON s.id = x.subscription WHERE s.name = $1 AND x.destination = p.destination))
UNION SELECT subscription FROM subscription_pauses WHERE ended_at IS NULL AND subscription = ANY ($3) ORDER BY 1`

// behind lists what keeps the subscription from acting in the old ledger, and stays there.
func (v *mover) behind(ctx context.Context) ([]string, error) {
	team, _, _ := strings.Cut(v.Subscription, ".")
	return texts(ctx, v.from, movePauses, v.Subscription, AgentDestinations(""), []string{AllSubscriptions, TeamSubscriptions(team)})
}

func texts(ctx context.Context, from querier, sql string, args ...any) ([]string, error) {
	rows, err := from.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// begin marks the subscription in both ledgers: from then on neither runs it.
func (v *mover) begin(ctx context.Context) error {
	if v.new != nil && !v.new.Comes { // it was there once, and its rows are left
		if err := v.forget(ctx, v.To, v.to); err != nil {
			return err
		}
	}
	if err := v.mark(ctx, v.to, true, v.From.id, v.FromName); err != nil {
		return err
	}
	err := v.in(ctx, v.From, v.from, func(tx *pg.Tx) error {
		if err := v.lock(ctx, tx); err != nil {
			return err
		}
		runs, err := v.running(ctx)
		if err != nil {
			return err
		}
		open, err := texts(ctx, tx, moveOpen, v.Subscription)
		if err != nil {
			return err
		}
		for _, why := range slices.Concat(runs, open) {
			return schemas.Errorf(schemas.Conflict, "", "%s", why)
		}
		if err := v.mark(ctx, tx, false, v.To.id, v.ToName); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE fences f SET epoch = epoch + 1, token = NULL FROM subscriptions s WHERE s.id = f.subscription AND s.name = $1 AND f.epoch > 0`, v.Subscription)
		return err
	})
	if err != nil {
		return err
	}
	select { // a process that lost its connection takes itself for present as long
	case <-time.After(cmp.Or(v.settle, lease)):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// mark writes the mark of a ledger.
func (v *mover) mark(ctx context.Context, to interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}, comes bool, other [16]byte, name string) error {
	return exactly(to.Exec(ctx, `INSERT INTO moves (subscription, comes, other, other_name) VALUES ($1, $2, $3, $4) ON CONFLICT (subscription) DO UPDATE
		SET comes = EXCLUDED.comes, other = EXCLUDED.other, other_name = EXCLUDED.other_name, began_at = now(), ended_at = NULL, ids = NULL, stood = NULL, copied = '{}'`,
		v.Subscription, comes, other, name))
}

// lock keeps claims, registrations and what operators ask of the old ledger waiting.
func (v *mover) lock(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `SELECT FROM subscriptions WHERE name = $1 ORDER BY id FOR UPDATE`, v.Subscription)
	if err == nil {
		_, err = tx.Exec(ctx, `SELECT FROM fences f JOIN subscriptions s ON s.id = f.subscription WHERE s.name = $1 ORDER BY f.id FOR UPDATE OF f`, v.Subscription)
	}
	return err
}

// open has the new ledger run the subscription, if the old one still has what was copied.
func (v *mover) open(ctx context.Context) error {
	return v.in(ctx, v.From, v.from, func(tx *pg.Tx) error {
		if err := v.lock(ctx, tx); err != nil {
			return err
		}
		var began time.Time
		if err := tx.QueryRow(ctx, `SELECT began_at FROM moves WHERE subscription = $1`, v.Subscription).Scan(&began); err != nil {
			return err
		}
		stands, err := v.stands(ctx, tx)
		if err != nil {
			return err
		}
		if v.new.Stood == nil || *v.new.Stood != stands {
			err := v.startAgain(ctx)
			return errors.Join(schemas.Errorf(schemas.Conflict, "", "%s has changed while it was copied (does something there still run it?): what was copied is thrown away, run the command again", v.FromName), err)
		}
		return v.in(ctx, v.To, v.to, func(tx *pg.Tx) error {
			for _, t := range lastTables {
				if _, err := tx.Exec(ctx, `DELETE FROM `+t.name+` t WHERE `+v.where(t)); err != nil { // of an earlier stay: those of the old ledger count
					return err
				}
				if err := v.copyTable(ctx, tx, t, t.name, t.name); err != nil {
					return err
				}
			}
			if _, err := tx.Exec(ctx, `UPDATE subscriptions SET move_began = $2 WHERE name = $1`, v.Subscription, began); err != nil {
				return err
			}
			return exactly(tx.Exec(ctx, `DELETE FROM moves WHERE subscription = $1`, v.Subscription))
		})
	})
}

// startAgain throws away what was copied.
func (v *mover) startAgain(ctx context.Context) error {
	if err := v.forget(ctx, v.To, v.to); err != nil {
		return err
	}
	return exactly(v.to.Exec(ctx, `UPDATE moves SET ids = NULL, stood = NULL, copied = '{}' WHERE subscription = $1`, v.Subscription))
}

// takeBack ends a move from To to From that is not complete: what From has of it is thrown away, and To runs it again.
func (v *mover) takeBack(ctx context.Context) error {
	if err := v.forget(ctx, v.From, v.from); err != nil {
		return err
	}
	if _, err := v.to.Exec(ctx, `DELETE FROM moves WHERE subscription = $1 AND NOT comes AND other = $2`, v.Subscription, v.From.id); err != nil {
		return err
	}
	return exactly(v.from.Exec(ctx, `DELETE FROM moves WHERE subscription = $1`, v.Subscription))
}

// in runs a transaction on one of the two connections, without limits of time.
func (v *mover) in(ctx context.Context, l *Ledger, conn *pgxpool.Conn, f func(tx *pg.Tx) error) (err error) {
	tx, err := l.sweep.BeginOn(ctx, conn)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = tx.Rollback(context.WithoutCancel(ctx))
		}
	}()
	if err := tx.Unbounded(ctx); err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit(ctx)
}
