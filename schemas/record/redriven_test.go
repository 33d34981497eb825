package record

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
)

// Who had a record produced is read back from it, the last one where several had; it changes nothing else of the event, goes along to no
// other record, and keeps no event back when it is wrong.
func TestRedriven(t *testing.T) {
	t.Parallel()
	want := event()
	r := Encode("events.acme.github", want)
	noted := schemas.Redriven{At: time.Unix(1_800_000_000, 7).UTC(), By: "ann@ops", Reason: "mended", From: "quarantine.acme.github/0@17"}
	SetRedriven(r, schemas.Redriven{At: time.Now(), By: "bob", Reason: "once more", From: "x"})
	SetRedriven(r, noted)
	got, err := Decode(r)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(&noted, got.Redriven); d != "" {
		t.Error(d)
	}
	again, err := Decode(Encode("elsewhere", got))
	if err != nil || again.Redriven != nil {
		t.Error(again.Redriven, err)
	}
	got.Redriven = nil
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	r.Headers = append(r.Headers, kgo.RecordHeader{Key: redrivenAt, Value: []byte("yesterday")}, kgo.RecordHeader{Key: redrivenBy})
	if got, err = Decode(r); err != nil || !got.Redriven.At.IsZero() || got.Redriven.By != "" {
		t.Error(got, err)
	}
}
