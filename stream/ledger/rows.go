package ledger

import (
	"context"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// Rows of queries are read into structs by their columns' names (pgx.RowToStructByName): lane_seq is the field LaneSeq, and a
// tag names a column with another name.

// versionColumns are the version of an event or a version line.
type versionColumns struct {
	Kind  schemas.VersionKind
	Clock string
	Epoch int64
	Value int64
	Text  string `db:"version_text"`
	Sub   int32
}

func (v *versionColumns) version() schemas.Version {
	return schemas.Version{Kind: v.Kind, Clock: v.Clock, Epoch: v.Epoch, Value: v.Value, Text: v.Text, Sub: v.Sub}
}

// idsOf returns the ids of the claims' fences.
func idsOf(claims []*Claim) []int32 {
	ids := make([]int32, len(claims))
	for i, c := range claims {
		ids[i] = c.ID
	}
	return ids
}

// ints returns the one column of a query.
func ints(ctx context.Context, db querier, sql string, args ...any) ([]int32, error) {
	return pg.CollectInt32(db.Query(ctx, sql, args...))
}
