package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
)

var _ = register(generic())

// generic has no facts of its own: the source's `verify:` and `event:` say everything. What does not say what it is is a delta.
func generic() preset {
	return preset{
		name: "generic", title: "Generic HMAC",
		verify:  verify.Params{Scheme: verify.SchemeHMAC},
		maxBody: 1 << 20, deadline: 10 * time.Second, deadlineNote: "the source's deadline says otherwise",
		retries:  "as the sender does",
		fallback: mapping{},
	}
}
