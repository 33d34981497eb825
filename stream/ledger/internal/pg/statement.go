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
	Fresh     bool // planned every time, on the table's size at that time; not prepared
	// Counted is the name of a statement that fails, with a division by zero, where it finds other than all of its rows.
	Counted string
}

// NewStatement is a statement that is prepared once on each connection.
func NewStatement(sql string) Statement {
	sum := sha256.Sum256([]byte(sql))
	return Statement{Name: "fb_" + hex.EncodeToString(sum[:12]), SQL: sql}
}

// NewFresh is a statement that is planned every time, on the tables' sizes at that time.
func NewFresh(sql string) Statement { return NewStatement(sql).Planned() }

// NewCounted is a statement that must hit as many rows as an array among its parameters has. It fails where it does not, on the
// server: COMMIT is in the same round trip, and the client's count would come too late. A statement on its own is held to one row
// by exactly, or by the row that it returns.
func NewCounted(sql, array string) Statement { return NewCountedAs(sql, "cardinality("+array+")") }

// NewCountedAs is the same of as many rows as the expression want says. What the statement writes itself, want does not see.
func NewCountedAs(sql, want string) Statement {
	name, _, _ := strings.Cut(strings.TrimPrefix(sql, "-- "), "\n")
	name, _, _ = strings.Cut(name, ":")
	return NewStatement("WITH hit AS (" + sql + "\nRETURNING 1)\nSELECT 1 / (count(*) = " + want + ")::int FROM hit").Counting(name)
}

// Counting is a statement that counts by itself, and is called name where rows are missed.
func (s Statement) Counting(name string) Statement {
	s.Counted = name
	return s
}

// Planned is NewFresh of a statement.
func (s Statement) Planned() Statement {
	s.Fresh = true
	return s
}

// Missed refuses because a write, or a read, has not found a row that must be there.
func Missed(statement string) error { return Refuse(missedError{statement}) }

// missedError says that a write has not found a row that must be there.
type missedError struct{ statement string }

func (e missedError) Error() string {
	return e.statement + " has not found every row that must be there"
}

// OrMissed is the error of a counted statement that was not sent through a pipeline.
func OrMissed(statement string, err error) error {
	if divided(err) {
		return Missed(statement)
	}
	return err
}

// IsMissed reports whether a write, or a read, has not found every row that must be there.
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
