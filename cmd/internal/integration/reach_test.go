package integration

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// fullAt makes the kernel answer no more handshakes at an address, for as long as nobody accepts connections of the socket that it returns:
// packets to it are swallowed, as by a record without a route. nil is for an address that this machine does not have, to which nothing
// connects either.
func fullAt(t *testing.T, network string, addr syscall.Sockaddr, dial string) *os.File {
	t.Helper()
	family := syscall.AF_INET
	if network == "tcp6" {
		family = syscall.AF_INET6
	}
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil
	}
	syscall.CloseOnExec(fd)
	socket := os.NewFile(uintptr(fd), dial)
	t.Cleanup(func() { socket.Close() })
	err = errors.Join(syscall.Bind(fd, addr), syscall.Listen(fd, 0))
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		conn, err := net.DialTimeout(network, dial, 100*time.Millisecond)
		if err != nil {
			return socket
		}
		t.Cleanup(func() { conn.Close() })
	}
	t.Fatal("the queue does not fill")
	return nil
}

// hosts are the names that the binary under test finds beside the machine's.
const hosts = `
::1 agent.test
127.0.0.1 agent.test
127.0.0.7 shop.test
127.0.0.1 shop.test
`

// TestDeadAddressFailsNothing: the agent's name has an IPv6 address, which is preferred, and the shop's two addresses of one family; the
// first of each swallows packets. Every event is acted on, at its first attempt.
func TestDeadAddressFailsNothing(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.Fake(t), options{})
	agent, err := url.Parse(r.agent.URL)
	if err != nil {
		t.Fatal(err)
	}
	var port int
	if _, err := fmt.Sscan(agent.Port(), &port); err != nil {
		t.Fatal(err)
	}
	fullAt(t, "tcp6", &syscall.SockaddrInet6{Addr: netip.IPv6Loopback().As16(), Port: port}, fmt.Sprintf("[::1]:%d", port))
	if fullAt(t, "tcp4", &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 7}, Port: port}, fmt.Sprintf("127.0.0.7:%d", port)) == nil {
		t.Fatal("127.0.0.7 is no address of this machine")
	}
	for _, name := range []string{"agent", "shop"} {
		r.edit(name+": {type: http, url: \"http://"+agent.Host+"/run\"", name+": {type: http, url: \"http://"+name+".test:"+agent.Port()+"/run\"")
	}
	r.edit("allow_networks: [127.0.0.0/8]", "allow_networks: [127.0.0.0/8, \"::1/128\"]")
	r.serve("intake,stream")
	r.deliver(issue(7, 1, 1), issue(7, 2, 1), order("o-1", 1))
	r.agent.waitActed(t, 3, time.Minute)
	p := r.intake.Load()
	waitItems(t, r, p, 3, "--status", "done")
	for _, i := range r.inbox(p) {
		if i.Attempts != 1 {
			t.Errorf("%s took %d attempts", i.EventID, i.Attempts)
		}
	}
	r.requireOnce(t)
}

// TestConnectionThatWasNeverMade: what may not be done twice, at an address that swallows packets until the attempt's time is over. Nothing
// was sent, so that it is tried again by itself, and done once when somebody listens there.
func TestConnectionThatWasNeverMade(t *testing.T) {
	t.Parallel()
	const at = "127.0.0.8"
	free, err := net.Listen("tcp", at+":0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	where := netip.MustParseAddrPort(address)
	socket := fullAt(t, "tcp4", &syscall.SockaddrInet4{Addr: where.Addr().As4(), Port: int(where.Port())}, address)
	if socket == nil {
		t.Fatal(at + " is no address of this machine")
	}
	c := newCrash(t, `type: github, do: dispatch, base_url: "http://`+address+`", token: "a-token", timeout: 1s, retry: {attempts: 100, within: 10m, min: 50ms, max: 500ms}, `+
		`params: {repo: acme/shop, event_type: order}, allow_networks: [127.0.0.0/8]`)
	c.order("o-1", 1)
	c.status("o-1", 1, "failed")
	l, err := net.FileListener(socket)
	if err != nil {
		t.Fatal(err)
	}
	var calls atomic.Int64
	github := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.WriteHeader(http.StatusNoContent)
	})}
	go github.Serve(l)
	t.Cleanup(func() { github.Close() })
	c.status("o-1", 1, "done")
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
}

// TestTeamsBringTheirOwnUser: PG* variables, a service and .pgpass of the process open no database to a team's file, whose URL has nobody in
// it. A URL that has somebody acts as that user, and with no setting of the process.
func TestTeamsBringTheirOwnUser(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.Fake(t), options{})
	db := connect(t, r.dbURL)
	execute(t, db, `CREATE TABLE acted (who text, at_database text, application text)`)
	own, err := url.Parse(r.dbURL)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := own.User.Password(); !ok {
		own.User = url.UserPassword(own.User.Username(), "any-password")
	}
	user := own.User.Username()
	password, _ := own.User.Password()
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(r.dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	r.variables = []string{"PGUSER=" + user, "PGPASSWORD=" + password, "PGPASSFILE=" + file("pgpass", "*:*:*:*:"+password+"\n"), "PGSERVICE=process",
		"PGSERVICEFILE=" + file("services", fmt.Sprintf("[process]\nuser=%s\npassword=%s\n", user, password))}
	const destination = `      shop: {type: postgres, database: %q, statement: "INSERT INTO acted VALUES (current_user, current_database(), current_setting('application_name'))", ` +
		`params: {values: []}, allow_networks: [127.0.0.0/8], retry: {attempts: 1}}`
	with := func(database string) {
		t.Helper()
		text, err := os.ReadFile(r.config)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		for i, line := range lines {
			if strings.HasPrefix(line, "      shop:") {
				lines[i] = fmt.Sprintf(destination, database)
			}
		}
		if err := os.WriteFile(r.config, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	nobody := *own
	nobody.User = nil
	with(nobody.String())
	const refused = "shop.database: has no user and password"
	if out, err := r.try("127.0.0.1:0", "config", "check", "-c", r.config); err == nil || !strings.Contains(string(out), refused) {
		t.Errorf("config check of a URL without a user: %s %v", out, err)
	}
	if out, err := r.try("127.0.0.1:0", "serve", "-c", r.config); err == nil || !strings.Contains(string(out)+err.Error(), refused) {
		t.Errorf("serve with a URL without a user: %s %v", out, err)
	}
	with(own.String())
	ledger := *own // which has settings of its own for those that the process has
	q := ledger.Query()
	for key, value := range map[string]string{"target_session_attrs": "any", "sslmode": "prefer", "application_name": "ledger"} {
		if !q.Has(key) {
			q.Set(key, value)
		}
	}
	ledger.RawQuery = q.Encode()
	r.ledger = ledger.String()
	r.variables = append(r.variables, "PGUSER=process", "PGPASSWORD=process", "PGDATABASE=process", "PGAPPNAME=process",
		"PGSERVICEFILE="+file("services", "[process]\nuser=process\npassword=process\ndbname=process\nsslmode=verify-full\n"),
		"PGSSLMODE=verify-full", "PGTARGETSESSIONATTRS=read-only") // with these two a connection fails
	p := r.serve("intake,stream")
	r.deliver(order("o-1", 1))
	waitItems(t, r, p, 1, "--status", "done")
	var who, at, application string
	if err := db.QueryRow(t.Context(), `SELECT who, at_database, application FROM acted`).Scan(&who, &at, &application); err != nil {
		t.Fatal(err)
	}
	if who != user || "/"+at != own.Path || application == "process" {
		t.Errorf("it was done by %s at %s as %q, want %s at %s, and nothing of the process", who, at, application, user, own.Path)
	}
}
