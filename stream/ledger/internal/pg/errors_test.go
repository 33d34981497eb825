package pg

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestTroubleOf(t *testing.T) {
	t.Parallel()
	code := func(code string) error { return &pgconn.PgError{Code: code} }
	tests := map[Trouble][]error{
		Transient: {code("40001"), code("40P01"), code("53300"), code("55P03"), code("25006"), &pgconn.ConnectError{}},
		Lost:      {code("57P01"), code("57P03"), code("08006"), errors.New("read tcp: connection reset"), &pgconn.PgError{Severity: "FATAL", Code: "XX000"}},
		Slow:      {code("57014"), code("25P03"), code("25P04"), silence{time.Second, errors.New("i/o timeout")}},
		BadData:   {code("22021"), code("22P05"), code("23505"), code("23514"), code("54000")},
		OldPlan:   {code("0A000"), code("26000")},
		NoTable:   {code("42P01")},
		Permanent: {code("42501"), code("42703"), Refuse(errors.New("ours"))},
	}
	for want, errs := range tests {
		for _, err := range errs {
			if got := TroubleOf(err); got != want {
				t.Errorf("%v: %d, want %d", err, got, want)
			}
		}
	}
}
