package ledger

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// columns are the parameters that are a statement's rows, one array a column, in the order of the parameters. Each such
// statement has a struct with a field for each column, which is filled by name, and one list in the constructor of the struct:
// name, order and type of the parameters, in the call and in the statement's text, all follow from it.
//
//	type goneRows struct {
//		columns
//		fence  pg.Int32s
//		offset pg.Int64s
//	}
//
//	r.columns = columns{{"fence", &r.fence}, {"log_offset", &r.offset}}
//
//	newGoneRows().from(1, "u")   unnest($1::int[], $2::bigint[]) AS u(fence, log_offset)
type columns []column

type column struct {
	name string // in the statement
	pg.Array
}

// n returns how many rows there are.
func (c columns) n() int { return c[0].Len() }

// params returns the parameters: lead, then the arrays. It panics if these have different lengths.
func (c columns) params(lead ...[]byte) [][]byte {
	out := slices.Grow(slices.Clone(lead), len(c)+1)
	for i := range c {
		if c[i].Len() != c[0].Len() { // unnest would fill up with nulls
			panic(fmt.Sprintf("ledger: %d of %s and %d of %s", c[i].Len(), c[i].name, c[0].Len(), c[0].name))
		}
		out = append(out, c[i].Param())
	}
	return out
}

// reset removes all rows.
func (c columns) reset() {
	for i := range c {
		c[i].Reset()
	}
}

// arrays returns the parameters as they are in the statement's text: $first::int[] and so on.
func (c columns) arrays(first int) []string {
	list := make([]string, len(c))
	for i := range c {
		list[i] = fmt.Sprintf("$%d::%s[]", first+i, c[i].Type())
	}
	return list
}

// names returns the columns' names, each with before in front, such as "u.".
func (c columns) names(before string) string {
	list := make([]string, len(c))
	for i := range c {
		list[i] = before + c[i].name
	}
	return strings.Join(list, ", ")
}

// from returns the FROM item from which a statement reads its rows, as a table called as; $first is the first column.
func (c columns) from(first int, as string) string {
	return "unnest(" + strings.Join(c.arrays(first), ", ") + ") AS " + as + "(" + c.names("") + ")"
}

// picked returns the columns of one row, whose index is the expression number, of arrays that the statement does not unnest.
func (c columns) picked(first int, number string) string {
	list := c.arrays(first)
	for i := range list {
		list[i] = "(" + list[i] + ")[" + number + "]"
	}
	return strings.Join(list, ", ")
}

// zip is from for many rows, as a table u: unnest in a select list streams, where in FROM each array would be stored first (a fifth more
// CPU).
func (c columns) zip(first int) string {
	list := c.arrays(first)
	for i := range c {
		list[i] = "unnest(" + list[i] + ") AS " + c[i].name
	}
	return "(SELECT " + strings.Join(list, ", ") + ") AS u"
}

// step is one statement with its parameters.
type step struct {
	s      pg.Statement
	params [][]byte
}

// steps are the statements of a round trip, in order.
type steps []step

// add adds a statement whose parameters are lead, the columns c and more, if c has rows.
func (l *steps) add(s pg.Statement, lead [][]byte, c columns, more ...[]byte) {
	if c.n() > 0 {
		*l = append(*l, step{s, append(c.params(lead...), more...)})
	}
}

// queue adds the statements to a pipeline.
func (l steps) queue(ctx context.Context, p *pg.Pipeline) error {
	for _, s := range l {
		if err := p.Add(ctx, s.s, nil, s.params...); err != nil {
			return err
		}
	}
	return nil
}

// fenceRows name the fences of claims: the parameters of fenceCheck and fencesHeld.
type fenceRows struct {
	columns
	id    pg.Int32s
	epoch pg.Int64s
	token pg.UUIDs
}

// fencesOf returns the rows that name the fences of claims.
func fencesOf(claims ...*Claim) *fenceRows {
	r := &fenceRows{}
	r.columns = columns{{"id", &r.id}, {"epoch", &r.epoch}, {"token", &r.token}}
	for _, c := range claims {
		r.id.Add(c.ID)
		r.epoch.Add(c.Epoch)
		r.token.Add(c.Token)
	}
	return r
}

// lineKeyRows name version lines: the parameters of linesRead and bufferRead.
type lineKeyRows struct {
	columns
	fence         pg.Int32s
	entity, clock pg.Texts
}

func newLineKeyRows() *lineKeyRows {
	r := &lineKeyRows{}
	r.columns = columns{{"fence", &r.fence}, {"entity", &r.entity}, {"clock", &r.clock}}
	return r
}

func (r *lineKeyRows) add(fence int32, k gate.VersionLineKey) {
	r.fence.Add(fence)
	r.entity.Add(string(k.Entity))
	r.clock.Add(k.Clock)
}

// placeRows name rows by fence and a number in it.
type placeRows struct {
	columns
	fence  pg.Int32s
	number pg.Int64s
}

func newPlaceRows() *placeRows  { return placeRowsAt("log_offset") }
func newActionRows() *placeRows { return placeRowsAt("lane_seq") }

func placeRowsAt(number string) *placeRows {
	r := &placeRows{}
	r.columns = columns{{"fence", &r.fence}, {number, &r.number}}
	return r
}

func (r *placeRows) add(fence int32, number int64) {
	r.fence.Add(fence)
	r.number.Add(number)
}
