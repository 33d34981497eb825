package doctor

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/app"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rig"
	"github.com/forebay-io/forebay/stream/ledger"
)

// start runs a process with both roles and has the doctor ask it.
func (i *installation) start() func() *Report {
	i.t.Helper()
	i.write()
	file, err := config.Load(config.Options{Path: i.path, Roles: config.ServeRoles(), Run: true})
	if err != nil {
		i.t.Fatal(err)
	}
	a, err := app.New(app.Config{File: file, Path: i.path, Roles: config.ServeRoles(), Drain: 10 * time.Second})
	if err == nil {
		err = a.Start()
	}
	if err != nil {
		i.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(i.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	i.t.Cleanup(func() {
		stop()
		<-ended
	})
	cfg := i.config()
	cfg.URL = "http://" + a.Addr("operator").String()
	cfg.Asking = " --url " + cfg.URL
	if cfg.Client, err = api.NewClient(cfg.URL); err != nil {
		i.t.Fatal(err)
	}
	if !rig.Until(time.Minute, func() bool {
		p, err := cfg.Client.Ready(i.t.Context())
		return err == nil && p.Ready
	}) {
		i.t.Fatal("the process is not ready")
	}
	return func() *Report { return Run(i.t.Context(), cfg) }
}

// TestProcess asks a running process: while all is well, when a topic has grown under it, and when it is gone.
func TestProcess(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.apply()
	look := i.start()
	var r *Report
	rig.Until(time.Minute, func() bool { // a first look at what waits may be too slow for the process
		r = look()
		return !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Check == "process" && f.Severity == Unknown })
	})
	want(t, r, "process", OK, "http://127.0.0.1", "ready: roles intake, stream", "")
	want(t, r, "process", OK, "attention", "nothing waits", "")
	want(t, r, "topics", OK, "", "they are there", "")
	if n := r.Problems(); n > 0 {
		t.Errorf("%d problems:\n%s", n, told(r))
	}

	// It is ready before it has claimed a partition, and the ledger knows the topic by its first claim.
	of, err := app.LedgerConfig(i.load().Ledger(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !rig.Until(time.Minute, func() bool {
		x, err := ledger.Examine(t.Context(), of)
		return err == nil && x.Topics["events.acme.github"] == 3
	}) {
		t.Fatal("no partition is claimed")
	}
	if _, err := i.adm.UpdatePartitions(t.Context(), 5, "events.acme.github"); err != nil {
		t.Fatal(err)
	}
	r = look() // the file has the former number
	want(t, r, "topics", Problem, "events.acme.github", "has 5 partitions, and the ledger knows it by 3", "forebay topics rekey events.acme.github --partitions 5 -c "+i.path)
	if n := len(slices.DeleteFunc(slices.Clone(r.Findings), func(f Finding) bool { return f.Check != "topics" || f.Subject != "events.acme.github" })); n != 1 {
		t.Errorf("%d findings about one topic:\n%s", n, told(r))
	}
	i.replace("github: {preset: github", "github: {topics: {partitions: 5}, preset: github")
	i.write()
	if !rig.Until(3*time.Minute, func() bool { r = look(); return strings.Contains(told(r), "stopped_partition") }) {
		t.Error("nobody says that partitions are stopped")
	}
	want(t, r, "topics", Problem, "events.acme.github", "has 5 partitions, and the ledger knows it by 3", "forebay topics rekey events.acme.github --partitions 5 -c "+i.path)
	want(t, r, "process", Problem, "stopped_partition", "wait for an operator", "forebay attention --kind stopped_partition --url http://127.0.0.1")

	cfg := i.config()
	cfg.URL = "http://" + rig.FreeAddress(t)
	if cfg.Client, err = api.NewClient(cfg.URL); err != nil {
		t.Fatal(err)
	}
	want(t, Run(t.Context(), cfg), "process", Problem, cfg.URL, "connection refused", "forebay serve -c "+i.path)
}

// TestNotCounted: what a process does not know is not taken for nothing.
func TestNotCounted(t *testing.T) {
	t.Parallel()
	found := (&doctor{}).waiting(&api.Attention{Unknown: []api.AttentionUnknown{{Kind: "dead_letter", Why: "Postgres is down"}, {Kind: "unmatched_keys", Why: "the role intake knows it"}, {Kind: "parked", Why: "Postgres is down"}}})
	if len(found) != 2 || found[0].Severity != Unknown || !strings.Contains(found[0].Evidence, "dead_letter, parked: Postgres is down") || !strings.Contains(found[1].Evidence, "unmatched_keys") {
		t.Errorf("%+v", found)
	}
}

// TestEmbeddedPostgres: the server of `forebay dev` cannot be looked at, and is no problem.
func TestEmbeddedPostgres(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.replace(`postgres: {url: "`+i.dbURL+`", schema: `+i.schema+`}`, "postgres: {embedded: true}")
	r := i.look()
	for _, check := range []string{"postgres", "connections"} {
		want(t, r, check, Unknown, "", "forebay dev", "")
	}
}
