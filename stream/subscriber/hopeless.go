package subscriber

import (
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// advice is what to do about the errors of Kafka and of this package's own statements that stay until somebody acts.
var advice = []struct {
	is   func(error) bool
	toDo string
}{
	{isOne(errTopicRecreated), "if that is right, delete the group's rows of the topic in forebay_positions: it is then read from its start"},
	{isOne(kerr.OffsetOutOfRange), "retention has deleted what was not read, or the log was cut: set next_offset in forebay_positions to where to go on"},
	{isA[*kgo.ErrDataLoss], "the log was cut: set next_offset in forebay_positions to where to go on, and leader_epoch to -1"},
	{isA[*kgo.ErrDecompressTooLarge], "give Config.Kafka a larger kgo.MaxDecompressBatchBytes, or, to leave the batch out, set next_offset in " +
		"forebay_positions to the offset behind it"},
	{isOne(kerr.TopicAuthorizationFailed), "grant the program's user READ and DESCRIBE on the topic"},
	{isOne(kerr.GroupAuthorizationFailed), "grant the program's user READ and DESCRIBE on the group"},
	{isOne(kerr.SaslAuthenticationFailed), "correct user and password in Config.Kafka"},
	{isOne(kgo.ErrClientClosed), "start again"},
	{hasCode("42P01", "42703", "3F000"), "execute subscriber.SQL in the schema that the pool's search_path names first"},
	{hasCode("42501"), "grant the pool's user SELECT, INSERT, UPDATE and DELETE on the tables of subscriber.SQL, and USAGE on their schema"},
}

func isOne(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func hasCode(codes ...string) func(error) bool {
	return func(err error) bool {
		pg, ok := errors.AsType[*pgconn.PgError](err)
		return ok && slices.Contains(codes, pg.Code)
	}
}

// hopeless reports whether an error stays until somebody acts. It is not for a handler's error.
func hopeless(err error) bool { return toDo(err) != "" }

func toDo(err error) string {
	for _, a := range advice {
		if a.is(err) {
			return a.toDo
		}
	}
	return ""
}

// withAdvice is an error that Run returns: it says what to do.
func withAdvice(err error) error { return fmt.Errorf("subscriber: %w; %s", err, toDo(err)) }
