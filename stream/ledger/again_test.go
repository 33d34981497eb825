package ledger

import (
	"fmt"
	"testing"
)

// A serialization failure, from Postgres itself, is tried again: the batch and the result are written once.
func TestSerializationFailureIsRetried(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	window := f.n.windows.Load().current
	for _, sql := range []string{
		`CREATE SEQUENCE tries`, // a rollback does not take back what it gave
		`CREATE FUNCTION conflict() RETURNS trigger LANGUAGE plpgsql AS $$
		 BEGIN IF nextval('tries') <= 3 THEN RAISE EXCEPTION 'could not serialize' USING ERRCODE = '40001'; END IF; RETURN NULL; END $$`,
		fmt.Sprintf(`CREATE TRIGGER conflict AFTER INSERT ON events_w%d FOR EACH STATEMENT EXECUTE FUNCTION conflict()`, window),
		fmt.Sprintf(`CREATE TRIGGER conflict AFTER INSERT ON completions_w%d FOR EACH STATEMENT EXECUTE FUNCTION conflict()`, window),
	} {
		if _, err := f.l.hot.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	a := f.apply(c, seq(0, "e", 1), seq(1, "e", 2))
	if len(a.Actions) != 2 || len(a.Quarantined) != 0 {
		t.Fatalf("%d actions, %v quarantined", len(a.Actions), a.Quarantined)
	}
	if _, err := f.l.hot.Exec(t.Context(), `ALTER SEQUENCE tries RESTART`); err != nil {
		t.Fatal(err)
	}
	f.record(Result{Claim: c, LaneSeq: 1, Status: Done, Attempt: 1})
	if got := one[string](f, `SELECT concat_ws(' ', (SELECT last_value FROM tries), (SELECT count(*) FROM events), (SELECT sum(cardinality(lanes)) FROM completions))`); got != "4 2 1" {
		t.Errorf("tries, events, completions: %s", got)
	}
}
