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
	fmt.Println(e.ID, e.DeliveryID)
	fmt.Println(e.Source, e.Type, e.Entity, e.Version.Clock, e.Version.Sortable(), e.Payload, err)
	// Output:
	// sha256:74ef8a7a3774a84633798c7ff1d3f39c2c13a56fcdc106484950ea6261015bc8 72d3162e
	// /acme/github com.github.issues.opened 186853002/42 issue 2026-05-15T15:20:18.000000000Z delta <nil>
}
