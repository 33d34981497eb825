package pg

import (
	"net"
	"slices"
	"testing"
)

// written is a connection that notes each write.
type written struct {
	net.Conn
	writes []string
}

func (w *written) Write(b []byte) (int, error) {
	w.writes = append(w.writes, string(b))
	return len(b), nil
}

func TestStatementsGoWithTheirEnd(t *testing.T) {
	t.Parallel()
	w := &written{}
	j := &joined{Conn: w}
	write := func(text string) {
		t.Helper()
		if n, err := j.Write([]byte(text)); n != len(text) || err != nil {
			t.Error(n, err)
		}
	}
	write("startup")
	j.holds = true
	write("statements ")
	write("and more ")
	j.holds = false
	write("sync")
	write("alone")
	if want := []string{"startup", "statements and more sync", "alone"}; !slices.Equal(w.writes, want) {
		t.Errorf("%q", w.writes)
	}
}
