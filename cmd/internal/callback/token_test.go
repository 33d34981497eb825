package callback

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/trace"
	"github.com/forebay-io/forebay/stream/ledger"
)

func keys(secrets ...string) *Keys {
	var list []schemas.Secret
	for _, s := range secrets {
		list = append(list, schemas.NewSecret(s))
	}
	return NewKeys(list)
}

// TestTokensOpenWhatTheyWereMadeFor and nothing else, whichever of the secrets made them.
func TestTokensOpenWhatTheyWereMadeFor(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringN(0, 40, -1)
		r := ledger.AttemptRef{Fence: rapid.Int32Range(1, 1<<30).Draw(t, "fence"), LaneSeq: rapid.Int64Min(1).Draw(t, "lane_seq"),
			Attempt: rapid.IntRange(1, 1<<30).Draw(t, "attempt"), Epoch: rapid.Int64Min(1).Draw(t, "epoch")}
		id, other := name.Draw(t, "id"), name.Draw(t, "other id")
		old, rotated, strange := keys("old"), keys("new", "old"), keys("strange")
		of := [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "ledger"))
		var span trace.Place // of an attempt that is not sampled
		if rapid.Bool().Draw(t, "sampled") {
			ids := hex.EncodeToString(rapid.SliceOfN(rapid.ByteMin(1), 24, 24).Draw(t, "ids"))
			span = trace.Place{Parent: "00-" + ids[:32] + "-" + ids[32:] + "-01", Began: time.UnixMicro(rapid.Int64Range(0, 1<<52).Draw(t, "began"))}
		}
		token := old.Action(of, r, schemas.ActionID(id), span).Reveal()
		if got, ok := rotated.openAction(token, id); !ok || got != (tokenAttempt{of, r, span}) {
			t.Errorf("%+v %v", got, ok)
		}
		if _, ok := rotated.openAction(token, other); ok != (other == id) {
			t.Error("it opens another action")
		}
		if _, ok := strange.openAction(token, id); ok {
			t.Error("another server opens it")
		}
		next := r
		next.Epoch++
		if again := old.Action(of, next, schemas.ActionID(id), span).Reveal(); again == token {
			t.Error("the next owner's token for its attempt of the same number is the same")
		}
		team, source := name.Draw(t, "team"), name.Draw(t, "source")
		event := old.Event(team, source, id)
		if !rotated.IsForEvent(event, team, source, id) || strange.IsForEvent(event, team, source, id) {
			t.Error("the event's token")
		}
		if rotated.IsForEvent(event, source, team, id) != (team == source) || rotated.IsForEvent(event, team+source, "", id) != (source == "") {
			t.Error("parts run into each other")
		}
		if _, ok := old.openAction(event, id); ok || old.IsForEvent(token, team, source, id) {
			t.Error("one scope opens the other")
		}
		// Any change of it opens nothing.
		i, c := rapid.IntRange(0, len(token)-1).Draw(t, "place"), rapid.Byte().Draw(t, "byte")
		if changed := token[:i] + string([]byte{c}) + token[i+1:]; changed != token {
			if _, ok := old.openAction(changed, id); ok {
				t.Errorf("%s opens as %s", changed, token)
			}
		}
	})
}

func TestTokensDoNotPrint(t *testing.T) {
	t.Parallel()
	token := keys("k").Action([16]byte{1}, ledger.AttemptRef{Fence: 1, LaneSeq: 1, Attempt: 1, Epoch: 1}, "act_1", trace.Place{})
	if text := fmt.Sprintf("%v %+v %#v", token, token, struct{ T schemas.Secret }{token}); strings.Contains(text, token.Reveal()[:12]) {
		t.Error(text)
	}
}

func FuzzOpen(f *testing.F) {
	k := keys("secret")
	r := ledger.AttemptRef{Fence: 1, LaneSeq: 2, Attempt: 3, Epoch: 4}
	good, event := k.Action([16]byte{1}, r, "act_1", trace.Place{}).Reveal(), k.Event("a", "b", "c")
	traced := k.Action([16]byte{1}, r, "act_1", trace.Place{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}).Reveal()
	f.Add(good)
	f.Add(traced)
	f.Add(event)
	f.Add("fba2_")
	f.Add("")
	f.Add(good[:20] + "\n" + good[20:])
	f.Add(event[:20] + "\r" + event[20:])
	f.Fuzz(func(t *testing.T, token string) {
		if _, ok := k.openAction(token, "act_1"); ok != (token == good || token == traced) {
			t.Errorf("%q opens: %v", token, ok)
		}
		if k.IsForEvent(token, "a", "b", "c") != (token == event) {
			t.Errorf("%q opens the event", token)
		}
	})
}

// TestKeysAreReplaced: other secrets are in force for the next token, as after a rotation; none at all replace nothing.
func TestKeysAreReplaced(t *testing.T) {
	t.Parallel()
	k := NewKeys([]schemas.Secret{schemas.NewSecret(strings.Repeat("a", 32))})
	before := k.Event("acme", "orders", "1")
	k.Set(nil)
	if !k.IsForEvent(before, "acme", "orders", "1") {
		t.Error("no secrets replace the one there is")
	}
	k.Set([]schemas.Secret{schemas.NewSecret(strings.Repeat("b", 32))})
	if k.IsForEvent(before, "acme", "orders", "1") || !k.IsForEvent(k.Event("acme", "orders", "1"), "acme", "orders", "1") {
		t.Error("a secret that was taken out opens a token, or the new one does not")
	}
}
