package rig

import "time"

// Until calls is, at first often and then ten times a second, until is returns true or the time is over, and reports which. It is for
// states of another process or server, which gives no signal.
func Until(within time.Duration, is func() bool) bool {
	pause := 2 * time.Millisecond
	for deadline := time.Now().Add(within); !is(); pause = min(2*pause, 100*time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
		<-time.After(pause)
	}
	return true
}
