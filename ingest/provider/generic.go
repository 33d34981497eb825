package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

var _ = register(generic())

// generic has no facts of its own: the source's `verify:` and `event:` say everything.
func generic() preset {
	return preset{
		name: "generic", title: "Generic HMAC",
		verify:  verify.Params{Scheme: verify.SchemeHMAC},
		maxBody: 1 << 20, deadline: 10 * time.Second,
		fallback: mapping{payload: schemas.Delta},
	}
}
