package ledger

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/forebay-io/forebay/schemas"
)

// looker is a presence on a connection of the test's own, by a clock of the test's own.
type looker struct {
	*presence
	f    *fixture
	conn *pgx.Conn
	at   time.Time
	n    *Namespace
}

func newLooker(f *fixture) *looker {
	l := &looker{presence: newPresence(f.l.quick, "t", slog.New(slog.DiscardHandler)), f: f, conn: f.connect(), at: time.Now()}
	l.now = func() time.Time { return l.at }
	l.n = &Namespace{ledger: &Ledger{presence: l.presence}, registration: f.n.registration, spec: f.n.spec}
	l.watchers[f.n.id] = func([]string) {}
	l.do(l.Began)
	return l
}

func (l *looker) do(what func(context.Context, *pgx.Conn) error) {
	l.f.t.Helper()
	if err := what(l.f.t.Context(), l.conn); err != nil {
		l.f.t.Fatal(err)
	}
}

// absent looks a while later, and returns who is to leave.
func (l *looker) absent(after time.Duration) string {
	l.f.t.Helper()
	l.at = l.at.Add(after)
	list, err := l.look(l.f.t.Context(), l.conn)
	if err != nil {
		l.f.t.Fatal(err)
	}
	return strings.Join(list[l.f.n.id], " ")
}

// A member is judged once its lock has been seen free for the lease; where the server is another one than then, only after the grace; never
// where its process has written it again meanwhile, under another lock. One that was judged is not written again.
func TestWhoIsGone(t *testing.T) {
	t.Parallel()
	f := setup(t)
	l := newLooker(f)
	insert := func(member string, lock int64, server string) {
		f.exec(`INSERT INTO members VALUES ($1, $2, $3, `+server+`)`, f.n.id, member, lock)
	}
	insert("here", 4711, `greatest(pg_postmaster_start_time(), (SELECT stats_reset FROM pg_stat_bgwriter))`)
	insert("elsewhere", 4712, `pg_postmaster_start_time() - interval '1 hour'`)
	for _, step := range []struct {
		after time.Duration
		want  string
	}{{0, ""}, {lease - 1, ""}, {1, "here"}, {grace - lease - 1, "here"}, {1, "here elsewhere"}} {
		got := l.absent(step.after)
		if len(strings.Fields(got)) != len(strings.Fields(step.want)) || step.want == "here" && got != "here" {
			t.Errorf("after %s: %q are to leave, not %q", step.after, got, step.want)
		}
	}

	other := newLooker(f)
	other.n.Enter("lives")
	other.at = other.at.Add(unknown - 1)
	if other.n.Unknown("lives") || other.n.Unknown("another") {
		t.Error("it is unknown at once")
	}
	if other.at = other.at.Add(1); !other.n.Unknown("lives") || other.n.Unknown("another") {
		t.Error("without a row it is not unknown")
	}
	if !other.n.Present("lives") {
		t.Error("before its row is there it is not present")
	}
	other.do(other.Beat)
	if !other.n.Present("lives") || other.n.Present("here") != true || other.n.Unknown("lives") {
		t.Error("with its row it is not present")
	}
	if other.at = other.at.Add(lease); other.n.Present("lives") {
		t.Error("it is present without an answer for the lease")
	}
	other.do(other.Beat)
	if !other.n.Present("lives") {
		t.Error("with an answer it is not present again")
	}
	f.exec(`DELETE FROM members WHERE member <> 'lives'`)
	release := func() { // the connection is lost, and comes again
		other.Ended()
		if other.n.Present("lives") {
			t.Error("without a connection it is present")
		}
		other.conn.Close(t.Context())
		other.conn = f.connect()
	}
	release()
	for l.absent(0) != "" || len(l.free) == 0 { // the server ends the session a moment later
	}
	other.do(other.Began)
	if other.n.Present("lives") || other.n.Unknown("lives") {
		t.Error("under a lock that its row does not have it is present, or is unknown")
	}
	other.do(other.Beat)
	if got := l.absent(lease); got != "" || !other.n.Present("lives") {
		t.Errorf("%q are to leave although it came again", got)
	}
	release()
	for l.absent(0) != "" || len(l.free) == 0 {
	}
	if got := l.absent(lease); got != "lives" {
		t.Errorf("%q are to leave", got)
	}
	other.do(other.Began)
	other.do(other.Beat)
	if other.n.Present("lives") {
		t.Error("one that was judged is present again")
	}
	other.n.Enter("lives again")
	other.do(other.Beat)
	if !other.n.Present("lives again") {
		t.Error("under another id it is not present")
	}
}

// Who has lost its own connection waits for those whose locks it then finds free, since what ended it may have ended theirs: not for those who go
// later.
func TestWhoIsGoneBesideALostConnection(t *testing.T) {
	t.Parallel()
	f := setup(t)
	l := newLooker(f)
	with, later := newLooker(f), newLooker(f)
	for name, o := range map[string]*looker{"with it": with, "later": later} {
		o.n.Enter(name)
		o.do(o.Beat)
	}
	if got := l.absent(0); got != "" {
		t.Fatalf("%q are to leave", got)
	}
	for _, o := range []*looker{l, with} {
		o.Ended()
		o.conn.Close(t.Context())
	}
	f.ended(with)
	l.conn = f.connect()
	l.do(l.Began)
	l.absent(0)
	later.conn.Close(t.Context())
	f.ended(later)
	for _, step := range []struct {
		after time.Duration
		want  string
	}{{0, ""}, {lease, "later"}, {grace - lease - 1, "later"}} {
		if got := l.absent(step.after); got != step.want {
			t.Errorf("after %s: %q are to leave, not %q", step.after, got, step.want)
		}
	}
	if got := l.absent(lease); len(strings.Fields(got)) != 3 {
		t.Errorf("after the grace %q are to leave", got)
	}
}

// ended waits until a lock is free: the server ends a session a moment after its client has.
func (f *fixture) ended(l *looker) {
	f.t.Helper()
	for free := false; !free; {
		if err := f.l.hot.QueryRow(f.t.Context(), `SELECT pg_try_advisory_xact_lock_shared((SELECT presence FROM members WHERE subscription = $1 AND member = $2))`,
			f.n.id, l.members[f.n.id].member).Scan(&free); err != nil {
			f.t.Fatal(err)
		}
	}
}

// A pooler in transaction mode gives two connections one session, and is refused. That session is others', too: no setting of ours stays in it.
func TestTransactionPoolingIsRefused(t *testing.T) {
	t.Parallel()
	f := setup(t)
	cfg := startPooler(t, f.cfg, false)
	if _, err := Migrate(t.Context(), cfg); schemas.KindOf(err) != schemas.Invalid || !errors.Is(err, errPooled) {
		t.Error(err)
	}
	l, err := Open(t.Context(), cfg)
	if err == nil {
		l.Close()
	}
	if schemas.KindOf(err) != schemas.Invalid || !errors.Is(err, errPooled) {
		t.Error(err)
	}
	if _, err := Examine(t.Context(), cfg); err != nil {
		t.Error(err)
	}
	other, err := pgx.Connect(t.Context(), cfg.URL.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(t.Context())
	var set string
	if err := other.QueryRow(t.Context(), `SELECT coalesce(string_agg(name, ' '), '') FROM pg_settings WHERE source = 'session'`, pgx.QueryExecModeExec).Scan(&set); err != nil || set != "" {
		t.Errorf("what another client gets has settings of ours: %s %v", set, err)
	}
}

// A pooler in session mode takes few parameters of a connection, and is as good as the server: what a session needs is set by a statement, and a
// ledger is in its own schema.
func TestSessionPooling(t *testing.T) {
	t.Parallel()
	direct := emptySchema(t)
	cfg := startPooler(t, direct, true)
	if _, err := Migrate(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if x, err := Examine(t.Context(), cfg); err != nil || x.Migration != nil {
		t.Errorf("%+v %v", x, err)
	}
	l, same := open(t, cfg), open(t, direct)
	for i, p := range l.db.Pools() {
		var got [2]string
		for j, p := range []*Pool{p, same.db.Pools()[i]} {
			if err := p.QueryRow(t.Context(), `SELECT string_agg(name || ' = ' || setting, E'\n' ORDER BY name) FROM pg_settings WHERE source = 'session'`).Scan(&got[j]); err != nil {
				t.Fatal(err)
			}
		}
		if got[0] != got[1] || !strings.Contains(got[0], `search_path = "`+cfg.Schema+`"`) || !strings.Contains(got[0], "\nstatement_timeout = ") {
			t.Errorf("pool %d has\n%s\nbehind a pooler, and without\n%s", i, got[0], got[1])
		}
	}
	(&fixture{t: t, cfg: cfg, l: l}).namespace()
}

// startPooler starts a pooler, in session mode or with one session of the server for whoever has a transaction, and returns the configuration
// of a ledger behind it.
func startPooler(t *testing.T, cfg Config, sessions bool) Config {
	t.Helper()
	direct := cfg.URL.Reveal()
	at, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	connect := func() (*pgconn.HijackedConn, error) {
		conn, err := pgconn.Connect(context.WithoutCancel(t.Context()), direct)
		if err != nil {
			return nil, err
		}
		return conn.Hijack()
	}
	server, err := connect()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); server.Conn.Close() })
	var session sync.Mutex
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if !sessions {
					pooled(c, server, &session)
				} else if own, err := connect(); err == nil {
					defer own.Conn.Close()
					pooled(c, own, new(sync.Mutex))
				}
			}()
		}
	}()
	at.Host = l.Addr().String()
	q := at.Query()
	q.Set("sslmode", "disable")
	at.RawQuery = q.Encode()
	cfg.URL = schemas.NewSecret(at.String())
	return cfg
}

// pooled serves one client. Its connection may have the parameters that PgBouncer takes.
func pooled(c net.Conn, server *pgconn.HijackedConn, session *sync.Mutex) {
	client := pgproto3.NewBackend(c, c)
	first, err := client.ReceiveStartupMessage()
	if err != nil {
		return
	}
	start, ok := first.(*pgproto3.StartupMessage)
	if !ok {
		return // a request to cancel
	}
	for name := range start.Parameters {
		if !slices.Contains([]string{"user", "database", "application_name", "client_encoding", "datestyle", "timezone", "standard_conforming_strings"}, strings.ToLower(name)) {
			client.Send(&pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "08P01", Message: "unsupported startup parameter: " + name})
			_ = client.Flush()
			return
		}
	}
	client.Send(&pgproto3.AuthenticationOk{})
	for name, value := range server.ParameterStatuses {
		client.Send(&pgproto3.ParameterStatus{Name: name, Value: value})
	}
	client.Send(&pgproto3.BackendKeyData{ProcessID: server.PID, SecretKey: server.SecretKey})
	client.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	for has := false; client.Flush() == nil; {
		msg, err := client.Receive()
		if err != nil {
			return
		}
		if _, ends := msg.(*pgproto3.Terminate); ends {
			return
		}
		if !has {
			session.Lock()
			has = true
		}
		server.Frontend.Send(msg)
		_, sync := msg.(*pgproto3.Sync)
		if _, query := msg.(*pgproto3.Query); !sync && !query {
			continue
		}
		if server.Frontend.Flush() != nil {
			return
		}
		for ready := false; !ready; {
			answer, err := server.Frontend.Receive()
			if err != nil {
				return
			}
			client.Send(answer)
			if r, ok := answer.(*pgproto3.ReadyForQuery); ok {
				if ready = true; r.TxStatus == 'I' {
					session.Unlock()
					has = false
				}
			}
		}
	}
}
