package rig

import "time"

// Until calls is, at first often and then ten times a second, until it returns true, and reports whether that was within the time. It is
// for what happens in another process or server, which gives no signal.
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
