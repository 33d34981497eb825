package ledger

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"
)

// ApprovalState is how a person's word on an action stands.
type ApprovalState string

const (
	ApprovalWaiting  ApprovalState = "waiting"
	ApprovalApproved ApprovalState = "approved"
	ApprovalUsed     ApprovalState = "used" // approved, and the action was attempted with it
	ApprovalDenied   ApprovalState = "denied"
	ApprovalExpired  ApprovalState = "expired" // nobody answered in time
	ApprovalVoid     ApprovalState = "void"    // what was asked about has changed
)

// ApprovalStates are all of them.
func ApprovalStates() []ApprovalState {
	return []ApprovalState{ApprovalWaiting, ApprovalApproved, ApprovalUsed, ApprovalDenied, ApprovalExpired, ApprovalVoid}
}

// ApprovalRequest asks for a person's word on an action that is about to be attempted.
type ApprovalRequest struct {
	// Fence, Epoch and Token are those of the claim of who asks.
	Fence        int32
	Epoch        int64
	Token        [16]byte
	Subscription string // "<team>.<subscription>"
	ActionID     schemas.ActionID
	Action       string
	Destination  string
	Digest       [32]byte // of what is to be sent
	Entity       string
	Version      string
	Source       string
	EventID      string
	Type         string
	Why          string
	Sends        string // what is to be sent, for people: at most MaxApprovalSends bytes of it are kept
	Roles        []string
	FourEyes     bool
	Expires      time.Duration
	Asks         string // the destination that is told of the question, as the team calls it; empty: none is
	// Since is when an operator last had the action run again, by this process's clock: what was said before that does not count. Zero: nobody has.
	Since time.Time
	// Overtaken says that the entity has a newer version by now, and that no attempt of this run is recorded; Doubt that one may have been made all the
	// same, whose process was killed.
	Overtaken, Doubt bool
}

// MaxApprovalSends is how much is kept of what is to be sent, in bytes.
const MaxApprovalSends = 16 << 10

// Approval is a person's word, or the question for it.
type Approval struct {
	ID           int64
	Team         string
	Subscription string // without the team
	ActionID     schemas.ActionID
	Action       string
	Destination  string
	Digest       []byte
	Entity       string
	Version      string
	Source       string
	EventID      string
	Type         string
	Why          string
	Sends        string // what is to be sent, for people; empty once the approval has ended, for it may have what events carry
	Roles        []string
	FourEyes     bool
	AskedAt      time.Time
	ExpiresAt    time.Time
	State        ApprovalState
	FirstBy      string // of two persons, who has approved it; empty: nobody, or one is enough
	AnsweredBy   string
	Reason       string
	AnsweredAt   *time.Time
	Asks         string     // the destination that is told of the question, as the team calls it; empty: none is
	ToldAt       *time.Time // when it was; nil: it was not
	TellTries    int        // how often that was begun
	TellFirst    *time.Time // when first
	TellError    string     // of the last try, if it failed
	GivenUp      bool       // that was refused for good: nobody is told any more
	Made         string     // what the destination has made of it, as [Telling] said
}

const approvalColumns = `p.id, split_part(s.name, '.', 1) AS team, substr(s.name, strpos(s.name, '.') + 1) AS subscription, p.action_id, p.action, p.destination, p.digest, p.entity,
       p.version, p.source, p.event_id, p.type, p.why, p.sends, p.roles, p.four_eyes, p.asked_at, p.expires_at, p.state, coalesce(p.first_by, '') AS first_by,
       coalesce(p.answered_by, '') AS answered_by, coalesce(p.reason, '') AS reason, p.answered_at,
       p.asks, p.told_at, p.tell_tries, p.tell_first, p.tell_error, p.told_at IS NULL AND p.tell_at IS NULL AND p.tell_error <> '' AS given_up, p.made`

const approvalTables = ` FROM approvals p JOIN subscriptions s ON s.id = p.subscription `

func scanApproval(row pgx.CollectableRow) (a Approval, err error) {
	var id [16]byte
	err = row.Scan(&a.ID, &a.Team, &a.Subscription, &id, &a.Action, &a.Destination, &a.Digest, &a.Entity, &a.Version, &a.Source, &a.EventID, &a.Type, &a.Why, &a.Sends, &a.Roles,
		&a.FourEyes, &a.AskedAt, &a.ExpiresAt, &a.State, &a.FirstBy, &a.AnsweredBy, &a.Reason, &a.AnsweredAt,
		&a.Asks, &a.ToldAt, &a.TellTries, &a.TellFirst, &a.TellError, &a.GivenUp, &a.Made)
	a.ActionID = schemas.ActionIDOf(id)
	return a, err
}

// AskApproval returns a person's word on an action, and asks for it if nobody was asked yet, or what is to be sent has changed since. An approval
// that it returns as approved is used up by that: it holds for the attempts of this run of the action, as long as they are to send the same. One that is
// not used up is asked for anew where others must give it now; where it could be had more easily, the stricter stays.
// A denial holds for the whole run. What is overtaken when it is first asked for is void at once. Who has lost the fence is told nothing, and changes
// nothing: its file may be an older one, and what it would send another thing than was approved. Errors are of kind Unavailable, [ErrFenced]
// among them, or Invalid if the request is.
func (l *Ledger) AskApproval(ctx context.Context, r ApprovalRequest) (a Approval, err error) {
	const op = "ask for an approval"
	id, ok := r.ActionID.Hash()
	if !ok || r.Expires <= 0 {
		return a, schemas.Errorf(schemas.Invalid, op, "action %q, expires %s", r.ActionID, r.Expires)
	}
	r.Entity, r.Version = pg.Clean(r.Entity, schemas.MaxEntity), pg.Clean(r.Version, 200) // as they are kept, which they are compared with
	err = pgx.BeginFunc(ctx, l.hot, func(tx pgx.Tx) error {
		if err := r.holds(ctx, tx); err != nil {
			return err
		}
		last, known, err := r.last(ctx, tx, id)
		if err != nil {
			return err
		}
		same := last.Entity == r.Entity && last.Version == r.Version && string(last.Digest) == string(r.Digest[:])
		more := r.asksMore(last)
		open := last.State == ApprovalWaiting || last.State == ApprovalApproved
		begun := r.Doubt && same && last.State == ApprovalUsed // it would be told as denied, and may have had its effect
		switch {
		case known && (last.State == ApprovalDenied || last.State == ApprovalExpired):
			a = last
			return nil
		case known && r.Overtaken && last.State == ApprovalVoid: // somebody was killed before that was recorded
			a = last
			return nil
		case known && r.Overtaken && !begun:
			a, err = voidApproval(ctx, tx, last.ID, movedOn)
			return err
		case known && same && last.State == ApprovalUsed:
			a, a.State = last, ApprovalApproved
			return nil
		case known && same && !more && last.State == ApprovalApproved:
			if a, err = oneApproval(tx.Query(ctx, written(`UPDATE approvals SET state = 'used', sends = '' WHERE id = $1`), last.ID)); err == nil {
				a.State = ApprovalApproved
			}
			return err
		case known && same && !more && last.State == ApprovalWaiting:
			a, err = expired(ctx, tx, last)
			return err
		case open:
			if _, err := voidApproval(ctx, tx, last.ID, "what is to be done has changed, or who must approve it, and is asked for anew"); err != nil {
				return err
			}
		}
		a, err = oneApproval(tx.Query(ctx, written(`INSERT INTO approvals (subscription, action_id, action, destination, digest, entity, version, source, event_id, type, why, sends, roles,
				four_eyes, expires_at, asks, tell_at)
			SELECT s.id, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, now() + $15::bigint * interval '1 microsecond', $16, CASE WHEN $16 <> '' THEN now() END
			FROM subscriptions s WHERE s.name = $1 ORDER BY s.generation LIMIT 1`),
			r.Subscription, id, r.Action, r.Destination, r.Digest[:], r.Entity, r.Version, r.Source, pg.Clean(r.EventID, 1000), pg.Clean(r.Type, 400),
			pg.Clean(r.Why, 1000), pg.Clean(r.Sends, MaxApprovalSends), r.Roles, r.FourEyes, r.Expires.Microseconds(), r.Asks))
		if err == nil && r.Overtaken && !r.Doubt { // no answer could make it run: nobody is told
			a, err = voidApproval(ctx, tx, a.ID, movedOn)
		}
		return err
	})
	if err != nil {
		return Approval{}, pg.Unavailable(op, err)
	}
	return a, nil
}

// holds returns [ErrFenced] unless who asks has its fence, which nobody takes before the end of tx.
func (r ApprovalRequest) holds(ctx context.Context, tx pgx.Tx) error {
	held := false
	err := tx.QueryRow(ctx, `SELECT epoch = $2 AND token = $3 FROM fences WHERE id = $1 FOR KEY SHARE`, r.Fence, r.Epoch, r.Token).Scan(&held)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && !held {
		return ErrFenced
	}
	return err
}

// last returns the newest question about an action, locked; known says that it was asked since an operator last had the action run again.
func (r *ApprovalRequest) last(ctx context.Context, tx pgx.Tx, action [16]byte) (last Approval, known bool, err error) {
	last, err = oneApproval(tx.Query(ctx, `SELECT `+approvalColumns+approvalTables+`WHERE p.action_id = $1 ORDER BY p.id DESC LIMIT 1 FOR UPDATE OF p`, action))
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return last, false, nil
	case err != nil || r.Since.IsZero():
		return last, err == nil, err
	}
	// All by the database's clock. now() is when tx began, before the age is taken, so that a question of this run is never taken for an older one.
	err = tx.QueryRow(ctx, `SELECT $1 >= now() - $2::bigint * interval '1 microsecond'`, last.AskedAt, time.Since(r.Since).Microseconds()).Scan(&known)
	return last, known, err
}

// expired returns a question that waits as it is by now, and writes its row only once its time is over.
func expired(ctx context.Context, tx pgx.Tx, last Approval) (Approval, error) {
	a, err := oneApproval(tx.Query(ctx, written(`UPDATE approvals SET state = 'expired', sends = '', answered_at = now() WHERE id = $1 AND expires_at <= now()`), last.ID))
	if errors.Is(err, pgx.ErrNoRows) {
		return last, nil
	}
	return a, err
}

// asksMore reports whether more is needed now than to answer a question that was asked: a second person, or another role than one of those.
func (r *ApprovalRequest) asksMore(last Approval) bool {
	return r.FourEyes && !last.FourEyes || slices.ContainsFunc(last.Roles, func(role string) bool { return !slices.Contains(r.Roles, role) })
}

const (
	movedOn = "its entity has a newer version by now"
	// voidSet ends an approval for the reason in front of it. Who has approved it stays, and why.
	voidSet = ` || CASE state WHEN 'waiting' THEN '' ELSE '; it was approved: ' || reason END, state = 'void', sends = '', answered_at = now()`
	// voidAudit keeps in the audit which approvals p have become void, and why.
	voidAudit = `INSERT INTO audit (actor, role, said_by, action, team, object, reason, outcome, ended_at, after)
		SELECT 'forebay', '', 'forebay', 'approval.void', split_part(s.name, '.', 1), p.id::text, p.reason, 'done', now(),
		    jsonb_build_object('id', p.id::text, 'state', p.state, 'subscription', s.name, 'action', p.action, 'source', p.source, 'event_id', p.event_id, 'entity', p.entity, 'version', p.version)
		FROM p JOIN subscriptions s ON s.id = p.subscription`
)

// voidApproval ends an approval that waits or was given.
func voidApproval(ctx context.Context, tx pgx.Tx, id int64, reason string) (Approval, error) {
	return oneApproval(tx.Query(ctx, `WITH p AS (UPDATE approvals SET reason = $2::text`+voidSet+` WHERE id = $1 RETURNING *), a AS (`+voidAudit+`)
		SELECT `+approvalColumns+` FROM p JOIN subscriptions s ON s.id = p.subscription`, id, reason))
}

// approvalVoid ends what nobody will use any more, under the fence: its action has gone on or ended without it, as $5.
var approvalVoid = pg.NewFresh(`-- approvalVoid
WITH p AS (UPDATE approvals p SET reason = CASE $5::text WHEN 'superseded' THEN '` + movedOn + `' ELSE 'its action is ' || $5::text || ' without it' END` + voidSet + `
FROM fences f WHERE f.id = $1 AND f.epoch = $2 AND f.token = $3 AND p.action_id = $4 AND p.state IN ('waiting', 'approved') RETURNING p.*)
` + voidAudit)

// asked reads which actions of a subscription have an approval that waits or was given: whoever asked may have been killed before that was recorded.
func (t *claimTx) asked(ctx context.Context) error {
	rows, err := t.tx.Query(ctx, `SELECT action_id FROM approvals p JOIN subscriptions s ON s.id = p.subscription WHERE s.name = $1 AND p.state IN ('waiting', 'approved')`, t.n.spec.Name)
	if err != nil {
		return err
	}
	t.c.asked = map[schemas.ActionID]bool{}
	var id [16]byte
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
		t.c.asked[schemas.ActionIDOf(id)] = true
		return nil
	})
	return err
}

// written returns the statement that gives the approvals that write, an UPDATE or INSERT, has written.
func written(write string) string {
	return `WITH p AS (` + write + ` RETURNING *) SELECT ` + approvalColumns + ` FROM p JOIN subscriptions s ON s.id = p.subscription`
}

func approvalsOf(op string, rows pgx.Rows, err error) ([]Approval, error) {
	var list []Approval
	if err == nil {
		list, err = pgx.CollectRows(rows, scanApproval)
	}
	return list, pg.Unavailable(op, err)
}

func oneApproval(rows pgx.Rows, err error) (Approval, error) {
	if err != nil {
		return Approval{}, err
	}
	return pgx.CollectExactlyOneRow(rows, scanApproval)
}

// ApprovalAnswer is what somebody says to the question for an approval.
type ApprovalAnswer struct {
	Approve bool
	By      string
	Reason  string
	// Barred are persons who must not approve where two are needed: who had the action run again.
	Barred []string
	DryRun bool // nothing is changed
}

// AnswerApproval takes a person's word. Of an approval that needs two persons, it waits on after the first. Kinds: NotFound; Conflict if it was
// answered before, has expired, or another person must answer; Unavailable.
func (l *Ledger) AnswerApproval(ctx context.Context, id int64, w ApprovalAnswer) (a Approval, err error) {
	const op = "answer an approval"
	if err := schemas.CheckRequest(op, w.By, w.Reason); err != nil {
		return a, err
	}
	by, reason := pg.Clean(w.By, 200), pg.Clean(w.Reason, 1000)
	err = pgx.BeginFunc(ctx, l.hot, func(tx pgx.Tx) error {
		if err := NotMoving(ctx, tx, op, AboutApproval, id); err != nil {
			return err
		}
		var late bool
		if a, err = oneApproval(tx.Query(ctx, `SELECT `+approvalColumns+approvalTables+`WHERE p.id = $1 FOR UPDATE OF p`, id)); err == nil {
			err = tx.QueryRow(ctx, `SELECT $1 <= now()`, a.ExpiresAt).Scan(&late)
		}
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return schemas.Errorf(schemas.NotFound, op, "there is no approval %d; `forebay approvals list` lists those that wait", id)
		case err != nil:
			return err
		}
		if err := a.takes(w.Approve, by, w.Barred, late); err != nil {
			return err
		}
		state := ApprovalDenied
		switch {
		case w.DryRun:
			return nil
		case w.Approve && a.FourEyes && a.FirstBy == "":
			a, err = oneApproval(tx.Query(ctx, written(`UPDATE approvals SET first_by = $2, reason = $3 WHERE id = $1`), id, by, reason))
			return err
		case w.Approve:
			state = ApprovalApproved
		}
		a, err = oneApproval(tx.Query(ctx, written(`UPDATE approvals SET state = $2, sends = CASE $2 WHEN 'approved' THEN sends ELSE '' END, answered_by = $3, reason = $4, answered_at = now() WHERE id = $1`), id, string(state), by, reason))
		return err
	})
	if _, ours := errors.AsType[*schemas.Error](err); ours {
		return Approval{}, err
	}
	if err != nil {
		return Approval{}, pg.Unavailable(op, err)
	}
	return a, nil
}

// takes returns why an approval does not take an answer; nil if it does.
func (a *Approval) takes(approve bool, by string, barred []string, late bool) error {
	const op = "answer an approval"
	refuse := func(format string, args ...any) error { return schemas.Errorf(schemas.Conflict, op, format, args...) }
	switch {
	case a.State == ApprovalVoid:
		return refuse("it is void: %s", a.Reason)
	case a.State == ApprovalExpired || a.State == ApprovalWaiting && late:
		return refuse("it has expired at %s", a.ExpiresAt.UTC().Format(time.RFC3339))
	case a.State == ApprovalUsed:
		return refuse("%s has approved it already, and the action was attempted with that", a.AnsweredBy)
	case a.State != ApprovalWaiting:
		return refuse("%s has answered it already: %s", a.AnsweredBy, a.State)
	case approve && a.FourEyes && a.FirstBy == by:
		return refuse("%s has approved it already, and another person must, too (four_eyes)", by)
	}
	for _, b := range barred {
		if approve && a.FourEyes && b == by {
			return refuse("%s had the action run again, so that others must approve it (four_eyes)", by)
		}
	}
	return nil
}

// ApprovalQuery narrows a list of approvals. Empty fields select everything.
type ApprovalQuery struct {
	Team   string
	State  ApprovalState
	Limit  int
	Before int64 // only those with a smaller id; 0: all
}

// Approvals lists approvals, the newest first.
func (l *Ledger) Approvals(ctx context.Context, q ApprovalQuery) ([]Approval, error) {
	rows, err := l.hot.Query(ctx, `SELECT `+approvalColumns+approvalTables+`
		WHERE ($1 = '' OR split_part(s.name, '.', 1) = $1) AND ($2 = '' OR p.state = $2) AND ($3 = 0 OR p.id < $3) ORDER BY p.id DESC LIMIT $4`,
		q.Team, string(q.State), q.Before, q.Limit)
	return approvalsOf("list the approvals", rows, err)
}

// ApprovalsOpen lists those that wait for a person's word, or were given and not used yet, the oldest first, without what is to be sent: at most limit of
// a subscription, of which those that wait come before the others.
func (l *Ledger) ApprovalsOpen(ctx context.Context, limit int) ([]Approval, error) {
	rows, err := l.hot.Query(ctx, `SELECT `+strings.Replace(approvalColumns, "p.sends", "''", 1)+approvalTables+`
		JOIN (SELECT id, row_number() OVER (PARTITION BY subscription ORDER BY state DESC, id) AS place FROM approvals WHERE state IN ('waiting', 'approved')) w ON w.id = p.id WHERE w.place <= $1 ORDER BY p.id`, limit)
	return approvalsOf("list the open approvals", rows, err)
}

// LastApproval returns the newest of an action. Kinds: NotFound, Unavailable.
func (l *Ledger) LastApproval(ctx context.Context, action schemas.ActionID) (Approval, error) {
	const op = "read the approval of an action"
	id, _ := action.Hash()
	a, err := oneApproval(l.hot.Query(ctx, `SELECT `+approvalColumns+approvalTables+`WHERE p.action_id = $1 ORDER BY p.id DESC LIMIT 1`, id))
	if errors.Is(err, pgx.ErrNoRows) {
		return a, schemas.Errorf(schemas.NotFound, op, "action %s has none", action)
	}
	return a, pg.Unavailable(op, err)
}

// Approval returns one. Kinds: NotFound, Unavailable.
func (l *Ledger) Approval(ctx context.Context, id int64) (Approval, error) {
	a, err := oneApproval(l.hot.Query(ctx, `SELECT `+approvalColumns+approvalTables+`WHERE p.id = $1`, id))
	if errors.Is(err, pgx.ErrNoRows) {
		return a, schemas.Errorf(schemas.NotFound, "read an approval", "there is no approval %d; `forebay approvals list` lists those that wait", id)
	}
	return a, pg.Unavailable("read an approval", err)
}

// unclosed are the questions that have ended, and whose destinations were told of them, or may have been: not while somebody is about that, nor where
// they have refused for good.
const unclosed = `state <> 'waiting' AND closed_at IS NULL AND tell_tries > 0 AND (told_at IS NOT NULL AND tell_at IS NULL OR tell_at <= now())`

// notCopied leaves out approvals of subscriptions that are being moved: the other ledger would not know that they were told.
const notCopied = `NOT EXISTS (SELECT FROM moves m JOIN subscriptions s ON s.name = m.subscription WHERE s.id = approvals.subscription)`

// TakeUntold returns at most n questions of which their destinations are to be told now, and as many that have ended, of which they are to be told that,
// and keeps them from other processes for as long as held: until [Ledger.EndTelling], or the process is killed meanwhile. Each counts as tried. A question
// that has ended is not told any more. Kind: Unavailable.
func (l *Ledger) TakeUntold(ctx context.Context, held time.Duration, n int) ([]Approval, error) {
	rows, err := l.hot.Query(ctx, `WITH p AS (UPDATE approvals SET tell_at = now() + $1::bigint * interval '1 microsecond', tell_tries = tell_tries + 1, tell_first = coalesce(tell_first, now())
			WHERE id = ANY (ARRAY(SELECT id FROM approvals WHERE state = 'waiting' AND tell_at <= now() AND expires_at > now() AND `+notCopied+` ORDER BY tell_at LIMIT $2 FOR UPDATE SKIP LOCKED)
				|| ARRAY(SELECT id FROM approvals WHERE `+unclosed+` AND `+notCopied+` ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING *)
		SELECT `+approvalColumns+` FROM p JOIN subscriptions s ON s.id = p.subscription ORDER BY p.id`, held.Microseconds(), n)
	return approvalsOf("take the questions that nobody was told of", rows, err)
}

// Telling is how a try to tell a destination of a question, or of its end, has ended.
type Telling struct {
	End     bool // it was told of the end
	Told    bool
	Made    string        // what the destination has made of the question, for who tells it the end
	Error   string        // why not
	NotMade bool          // the destination takes no calls now: it counts as no try
	Again   time.Duration // where it is not told, when it is tried again; 0: never
}

// EndTelling keeps how a try has ended. Kind: Unavailable.
func (l *Ledger) EndTelling(ctx context.Context, id int64, t Telling) error {
	if t.End {
		_, err := l.hot.Exec(ctx, `UPDATE approvals SET closed_at = CASE WHEN $2 OR $5::bigint = 0 THEN now() END, tell_error = $3, tell_tries = tell_tries - CASE WHEN $4 THEN 1 ELSE 0 END,
			tell_at = CASE WHEN NOT $2 AND $5::bigint > 0 THEN now() + $5::bigint * interval '1 microsecond' END
			WHERE id = $1 AND closed_at IS NULL`, id, t.Told, pg.Clean(t.Error, 1000), t.NotMade, t.Again.Microseconds())
		return pg.Unavailable("keep how the end of a question was told", err)
	}
	_, err := l.hot.Exec(ctx, `UPDATE approvals SET told_at = CASE WHEN $2 THEN now() END, made = $6, tell_error = $3, tell_tries = tell_tries - CASE WHEN $4 THEN 1 ELSE 0 END,
			tell_first = CASE WHEN $4 AND tell_tries = 1 THEN NULL ELSE tell_first END, tell_at = CASE WHEN NOT $2 AND $5::bigint > 0 THEN now() + $5::bigint * interval '1 microsecond' END
		WHERE id = $1 AND told_at IS NULL`, id, t.Told, pg.Clean(t.Error, 1000), t.NotMade, t.Again.Microseconds(), pg.Clean(t.Made, 200))
	return pg.Unavailable("keep how a question was told", err)
}
