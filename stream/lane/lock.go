package lane

import "sync"

// lock is a mutex. Tests set check, which then runs at the end of every critical section.
type lock struct {
	sync.Mutex
	check func()
	lines []func() // to be logged behind it
}

// say logs a line once the mutex is unlocked: a log that nobody reads blocks whoever writes to it. The caller holds it.
func (l *lock) say(line func()) { l.lines = append(l.lines, line) }

// Unlock unlocks the mutex.
func (l *lock) Unlock() {
	if l.check != nil {
		l.check()
	}
	lines := l.lines
	l.lines = nil
	l.Mutex.Unlock()
	for _, line := range lines {
		line()
	}
}
