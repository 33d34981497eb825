//go:build !linux

package owner

import "time"

// suspended is not known here: after a suspension a member is taken for alive until a pulse has been refused or the session timeout
// has passed on Go's clock, which may have stood still.
func suspended() time.Duration { return 0 }
