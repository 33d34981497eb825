package integration

import (
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// longSession is far longer than any wait of these tests: what goes on within one does not because a session has timed out.
const longSession = "session_timeout: 5m"

// TestKilledIsBackBeforeItsSessionEnds: after a kill -9, the process that starts takes the member of the one before out of the group; where
// there is another process, that does.
func TestKilledIsBackBeforeItsSessionEnds(t *testing.T) {
	t.Parallel()
	eachBroker(t, func(t *testing.T, b rig.Broker) {
		r := deploy(t, b, options{latency: 2 * time.Millisecond})
		r.edit("session_timeout: 6s", longSession)
		r.serve("intake")
		p := r.serve("stream")
		underLoad(t, r, func() (faults []fault) {
			at := time.Now()
			p.kill()
			r.look()
			p = r.serve("stream")
			faults = append(faults, r.faultSince(p, at))
			other := r.serve("stream")
			r.waitOwned(other, 3)
			at = time.Now()
			p.kill()
			r.look()
			return append(faults, r.faultSince(other, at))
		})
	})
}

// TestLosesPostgresAlone: the server ends the session by which others know that a process lives, while that can reach it no more, and reaches
// Kafka. It begins nothing, others take it out of the group, it stays out of it, and once it can it joins again.
func TestLosesPostgresAlone(t *testing.T) {
	t.Parallel()
	r := deploy(t, rig.SharedKafka(t), options{latency: 2 * time.Millisecond})
	r.edit("session_timeout: 6s", longSession)
	r.serve("intake")
	other := r.serve("stream")
	proxy := hangingLedger(t, r)
	cut := r.serve("stream")
	r.waitOwned(cut, 3)
	r.waitOwned(other, 3)
	v, _ := load(t, r, slowLoad, func() []fault {
		at := time.Now()
		proxy.HangAll()
		r.sql(`SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory' AND mode = 'ExclusiveLock'
			AND datname = current_database() ORDER BY backend_start DESC LIMIT 1) AS newest`)
		for _, name := range []string{"triage", "fulfil"} {
			waits := regexp.MustCompile(`the group is joined again when the ledger answers.*\.` + name)
			until(t, name+" waits for Postgres", func() bool { return waits.MatchString(cut.output()) })
		}
		r.waitOwned(other, 6)
		proxy.Answer()
		r.waitOwned(cut, 3)
		return []fault{{from: at, to: time.Now()}}
	})
	v.requireComplete(t)
	v.requireOrderOfFirstCalls(t)
}

// TestPostgresEndsAllSessions: the server crashes and recovers, or is ended and started again, and all locks are free at once. One of three
// members comes back later than the others look for who is gone: nobody takes it out.
func TestPostgresEndsAllSessions(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*rig.PostgresServer){"crash": (*rig.PostgresServer).Crash, "restart": (*rig.PostgresServer).Restart} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := rig.Postgres(t)
			r := deploy(t, rig.Fake(t), options{dbURL: pg.URL()})
			r.edit("session_timeout: 6s", longSession)
			r.serve("intake")
			members := []*process{r.serve("stream"), r.serve("stream"), r.serve("stream")}
			for _, p := range members {
				r.waitOwned(p, 2)
			}
			late := members[2]
			of := `FROM forebay.members WHERE subscription = (SELECT id FROM forebay.subscriptions WHERE name LIKE '%.triage')`
			rows := func(text string) string { return sqlAnswer(t, pg.URL(), text) }
			names, before := rows(`SELECT string_agg(member, ' ' ORDER BY member) `+of), rows(`SELECT string_agg(presence::text, ',') `+of)
			late.signal(syscall.SIGSTOP)
			end(pg)
			until(t, "the others are back", func() bool { return rows(`SELECT count(*)::text `+of+` AND presence IN (`+before+`)`) == "1" })
			<-time.After(5 * time.Second) // more than three beats of theirs
			late.signal(syscall.SIGCONT)
			until(t, "all are back", func() bool { return rows(`SELECT count(*)::text `+of+` AND presence IN (`+before+`)`) == "0" })
			for _, p := range members {
				r.waitOwned(p, 2)
				if strings.Contains(p.output(), "it is taken out") {
					t.Error("a member was taken out whose process lives")
				}
			}
			if now := rows(`SELECT string_agg(member, ' ' ORDER BY member) ` + of); now != names {
				t.Errorf("the members are %s, and were %s", now, names)
			}
		})
	}
}
