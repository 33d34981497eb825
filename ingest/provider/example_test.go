package provider_test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

func ExampleCompile() {
	src, err := provider.Compile(provider.Config{Team: "acme", Name: "github", Preset: "github",
		Secrets: []schemas.Secret{schemas.NewSecret("It's a Secret to Everybody")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Now()
	r := &verify.Request{Method: "POST", Header: http.Header{"X-Github-Event": {"issues"}, "X-Github-Delivery": {"72d3162e"}},
		Body: []byte(`{"action":"opened","repository":{"id":186853002},"issue":{"number":42,"updated_at":"2026-05-15T15:20:18Z"}}`)}
	if err := src.Sign(r, now); err != nil {
		fmt.Println(err)
		return
	}
	if err := src.Verifier.Verify(r, now); err != nil {
		fmt.Println(err)
		return
	}
	e, err := src.Event(r, now)
	fmt.Println(e.Source, e.ID, e.Type, e.Entity, e.Version.Clock, e.Version.Sortable(), e.Payload, err)
	// Output: /acme/github 72d3162e com.github.issues.opened 186853002/42 issue 2026-05-15T15:20:18.000000000Z snapshot <nil>
}
