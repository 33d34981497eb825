package ledger

import "github.com/forebay-io/forebay/schemas"

// Rows of questions are read into structs by their columns' names (pgx.RowToStructByName): lane_seq is the field LaneSeq, and a
// tag names a column that is called otherwise.

// versionColumns are the version of an event or a line.
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

// idsOf are the claims' fences.
func idsOf(claims []*Claim) []int32 {
	ids := make([]int32, len(claims))
	for i, c := range claims {
		ids[i] = c.ID
	}
	return ids
}
