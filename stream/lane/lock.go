package lane

import "sync"

// lock is a mutex. Tests set check, which then runs at the end of every critical section.
type lock struct {
	sync.Mutex
	check func()
}

// Unlock unlocks the mutex.
func (l *lock) Unlock() {
	if l.check != nil {
		l.check()
	}
	l.Mutex.Unlock()
}
