package pg

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
)

// Statement is SQL with a name to prepare it under.
type Statement struct {
	Name, SQL string
	Fresh     bool // planned every time, for the tables' sizes at that time; not prepared
	// Counted is the name, for errors, of a statement that fails with a division by zero if it does not find all of its rows; empty: the
	// statement does not count.
	Counted string
}

// NewStatement returns a statement that is prepared once on each connection.
func NewStatement(sql string) Statement {
	sum := sha256.Sum256([]byte(sql))
	return Statement{Name: "fb_" + hex.EncodeToString(sum[:12]), SQL: sql}
}

// NewFresh returns a statement that is planned every time, for the tables' sizes at that time.
func NewFresh(sql string) Statement { return NewStatement(sql).Planned() }

// NewCounted returns a statement that must change as many rows as an array among its parameters has elements. Otherwise it fails on the
// server: COMMIT is in the same round trip, and a count by the client would come too late. A statement that is sent alone is checked by
// Exactly, or by the row that it returns.
func NewCounted(sql, array string) Statement { return NewCountedAs(sql, "cardinality("+array+")") }

// NewCountedAs is NewCounted for as many rows as the expression want says. want does not see what the statement itself writes.
func NewCountedAs(sql, want string) Statement {
	name, _, _ := strings.Cut(strings.TrimPrefix(sql, "-- "), "\n")
	name, _, _ = strings.Cut(name, ":")
	return NewStatement("WITH hit AS (" + sql + "\nRETURNING 1)\nSELECT 1 / (count(*) = " + want + ")::int FROM hit").Counting(name)
}

// Counting returns s as a statement that counts its rows itself, and is called name in errors.
func (s Statement) Counting(name string) Statement {
	s.Counted = name
	return s
}

// Planned returns s as a statement that is planned every time; see NewFresh.
func (s Statement) Planned() Statement {
	s.Fresh = true
	return s
}

// Missed returns the error that a statement, a write or a read, has not found a row that must be there.
func Missed(statement string) error { return Refuse(missedError{statement}) }

// missedError is the error of Missed.
type missedError struct{ statement string }

func (e missedError) Error() string {
	return e.statement + " has not found every row that must be there"
}

// OrMissed returns the error of a counted statement that was not sent through a pipeline: that of Missed if its rows were not found, or err.
func OrMissed(statement string, err error) error {
	if dividedByZero(err) {
		return Missed(statement)
	}
	return err
}

// IsMissed reports whether an error is that of Missed.
func IsMissed(err error) bool {
	_, ok := errors.AsType[missedError](err)
	return ok
}

// What begins and ends a transaction.
var (
	Begin    = NewStatement(`begin`)
	Commit   = NewStatement(`commit`)
	rollback = NewStatement(`rollback`)
)
