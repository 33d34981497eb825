package deptest

import (
	"flag"
	"os"
	"testing"
)

// TestMain leaves all of it out with -short: it judges sources, which do not change what the program does, and reads every package for that.
func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		return
	}
	os.Exit(m.Run())
}
