package ledger

import (
	"math"
	"time"

	"github.com/forebay-io/forebay/stream/ledger/internal/marks"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// completions is one row of the table: up to 1,024 actions that have ended in the same way.
type completions struct {
	key       completionKey
	places    pg.Int16s // of its actions in the bucket; latencies and responses are in the same order
	latencies pg.Int32s
	responses pg.Blobs
	answered  bool // one of the responses is not empty
	size      int  // bytes of responses
}

// completionKey is what the actions of one row have in common.
type completionKey struct {
	claim      *Claim
	bucket     int64
	code       int32
	superseded bool // they were not tried, and have ended all the same
}

// maxResponses is how many bytes of responses a row of completions has before another one is begun.
const maxResponses = 256 << 10

// complete adds the completion of an action: to the row with its key, or to a new row if the responses in that one are too large.
func (wr *windowResults) complete(r *Result) {
	bucket, place := marks.Bucket(r.LaneSeq)
	key := completionKey{r.Claim, bucket, int32(r.Code), r.Status == Superseded}
	c := wr.open[key]
	if c == nil || c.size > maxResponses {
		c = &completions{key: key}
		wr.open[key] = c
		wr.completions = append(wr.completions, c)
	}
	c.places.Add(place)
	c.latencies.Add(microseconds(r.Latency))
	answer := response(r)
	c.responses.Add(answer)
	c.answered = c.answered || answer != nil
	c.size += len(answer)
}

// params returns the parameters of completionInsert.
func (c *completions) params() [][]byte {
	var responses []byte
	if c.answered {
		responses = c.responses.Param()
	}
	return append(c.key.claim.fenceParams(), pg.Int64Param(c.key.bucket), pg.Int32Param(c.key.code), c.places.Param(), c.latencies.Param(), responses, pg.BoolParam(c.key.superseded))
}

// fenceParams returns the parameters that name a claim's fence: id, epoch, token.
func (c *Claim) fenceParams() [][]byte {
	return [][]byte{pg.Int32Param(c.ID), pg.Int64Param(c.Epoch), c.Token[:]}
}

// resultRows are the rows of actions as results make them: the parameters of actionsUpdate and actionsInsert behind those of the fences. Times
// are durations, from or to the database's now: doubt_us is how long ago the doubt ended, since_us how long ago the attempt began.
type resultRows struct {
	columns
	fence, attempt, spent, code, latency  pg.Int32s
	laneSeq, nextIn, left, silence, doubt pg.Int64s
	since, epoch                          pg.Int64s
	status, class, errors, cancelURL      pg.Texts
	response, packed                      pg.Blobs
	id                                    pg.UUIDs
	guarded                               pg.Bools
}

func newResultRows() *resultRows {
	r := &resultRows{}
	r.columns = columns{{"fence", &r.fence}, {"lane_seq", &r.laneSeq}, {"status", &r.status}, {"attempt", &r.attempt}, {"next_in", &r.nextIn},
		{"class", &r.class}, {"code", &r.code}, {"latency_us", &r.latency}, {"error", &r.errors}, {"response", &r.response}, {"packed", &r.packed},
		{"left_us", &r.left}, {"silence_us", &r.silence}, {"action_id", &r.id}, {"doubt_us", &r.doubt}, {"since_us", &r.since}, {"spent", &r.spent},
		{"epoch", &r.epoch}, {"guarded", &r.guarded}, {"cancel_url", &r.cancelURL}}
	return r
}

// add adds a result as a row for its action. One that has ended keeps no payload copy.
func (c *resultRows) add(r *Result) {
	c.fence.Add(r.Claim.ID)
	c.laneSeq.Add(r.LaneSeq)
	c.status.Add(string(r.Status))
	c.attempt.Add(int32(r.Attempt))
	c.spent.Add(int32(r.Spent))
	c.nextIn.Add(r.NextIn.Microseconds())
	c.class.Add(pg.Clean(r.Class, 40))
	c.code.Add(int32(r.Code))
	c.latency.Add(microseconds(r.Latency))
	c.errors.Add(pg.Clean(r.Error, MaxErrorText))
	c.response.Add(response(r))
	if r.Status.Closed() {
		c.packed.Null()
	} else {
		c.packed.Add(r.Packed)
	}
	c.left.Add(r.Left.Microseconds())
	c.silence.Add(r.Silence.Microseconds())
	if id, ok := r.ID.Hash(); ok {
		c.id.Add(id)
	} else {
		c.id.Null()
	}
	if r.DoubtEnd.IsZero() {
		c.doubt.Null()
	} else {
		c.doubt.Add(time.Since(r.DoubtEnd).Microseconds())
	}
	since := r.Latency
	if !r.Began.IsZero() {
		since = max(since, time.Since(r.Began))
	}
	c.since.Add(since.Microseconds())
	c.epoch.Add(r.attemptEpoch())
	c.guarded.Add(r.Guarded)
	c.cancelURL.Add(r.CancelURL)
}

// attemptRows are attempts that get a row: the parameters of attemptsInsert behind those of the fences. One attempt has one row at most.
type attemptRows struct {
	columns
	fence, attempt, code, latency pg.Int32s
	laneSeq                       pg.Int64s
	status, class, errors         pg.Texts
	response                      pg.Blobs
	trace                         pg.UUIDs
}

func newAttemptRows() *attemptRows {
	r := &attemptRows{}
	r.columns = columns{{"fence", &r.fence}, {"lane_seq", &r.laneSeq}, {"status", &r.status}, {"attempt", &r.attempt}, {"class", &r.class},
		{"code", &r.code}, {"latency_us", &r.latency}, {"error", &r.errors}, {"response", &r.response}, {"trace", &r.trace}}
	return r
}

// add adds a result as a row for its attempt.
func (c *attemptRows) add(r *Result) {
	c.fence.Add(r.Claim.ID)
	c.laneSeq.Add(r.LaneSeq)
	c.status.Add(string(r.Status))
	c.attempt.Add(int32(r.Attempt))
	c.class.Add(pg.Clean(r.Class, 40))
	c.code.Add(int32(r.Code))
	c.latency.Add(microseconds(r.Latency))
	c.errors.Add(pg.Clean(r.Error, MaxErrorText))
	c.response.Add(response(r))
	c.trace.AddOrNull(r.Trace)
}

// response returns what is kept of a result's response; nil if that is empty.
func response(r *Result) []byte {
	if len(r.Response) == 0 {
		return nil
	}
	return r.Response[:min(len(r.Response), MaxResponse)]
}

// microseconds returns a duration for a column of type int, cut to its range.
func microseconds(d time.Duration) int32 {
	return int32(min(max(d.Microseconds(), 0), math.MaxInt32))
}
