package ledgertest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/forebay-io/forebay/stream"
	streambatch "github.com/forebay-io/forebay/stream/batch"
	"github.com/forebay-io/forebay/stream/lane"
	"github.com/forebay-io/forebay/stream/ledger/ledgertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What the packages above need of a namespace, a process of a Memory is.
var (
	_ stream.Ledger              = (*ledgertest.Process)(nil)
	_ streambatch.BackfillLedger = (*ledgertest.Process)(nil)
	_ lane.Ledger                = (*ledgertest.Process)(nil)
)
