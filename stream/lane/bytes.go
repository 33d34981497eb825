package lane

import "github.com/forebay-io/forebay/schemas"

// charge is the account on which an entry's payload bytes are held.
type charge uint8

const (
	nothing charge = iota
	queued         // loaded, not running
	flying         // from the start of an attempt until its result is recorded
)

// hold keeps an entry's payload, given as event or packed, if the half for queued ones has room for it.
func (l *Lanes) hold(e *entry, packed []byte) {
	switch {
	case e.event != nil:
		e.size = weigh(e.event)
	case packed != nil:
		e.size = len(packed)
	default:
		return
	}
	if l.queuedBytes+int64(e.size) > l.cfg.MaxBytes/2 {
		e.event = nil
		return
	}
	e.Packed = packed
	e.charge = queued
	l.queuedBytes += int64(e.size)
}

// free gives back what an entry holds.
func (l *Lanes) free(e *entry) {
	switch e.charge {
	case queued:
		l.queuedBytes -= int64(e.size)
	case flying:
		l.flyingBytes -= int64(e.size)
	}
	e.charge, e.event, e.Packed = nothing, nil, nil
}

// fits reports whether an attempt of e may start now. A payload that fits nowhere runs alone.
func (l *Lanes) fits(e *entry) bool {
	half := l.cfg.MaxBytes / 2
	if e.size == 0 && (l.loads >= l.maxLoads() || l.flyingBytes >= half && l.flyingBytes > 0) {
		return false
	}
	return l.flyingBytes == 0 || l.flyingBytes+int64(e.size) <= half
}

// maxLoads is how many payloads of unknown size may be loaded at once.
func (l *Lanes) maxLoads() int { return int(min(maxLoads, max(1, l.cfg.MaxBytes/2/l.guess))) }

// fly moves an entry's bytes to the account of attempts.
func (l *Lanes) fly(e *entry) {
	if e.charge == queued {
		l.queuedBytes -= int64(e.size)
	}
	e.charge = flying
	l.flyingBytes += int64(e.size)
	if e.size == 0 {
		l.loads++
	}
}

// loaded settles an entry whose payload has just been read (nil: it could not be).
func (l *Lanes) loaded(e *entry, event *schemas.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.size == 0 {
		l.loads--
		if event != nil {
			l.guess = max(int64(weigh(event)), l.guess-l.guess/8)
		}
		l.wake()
	}
	if event == nil || e.charge != flying {
		return // could not be read, or the claim was forgotten meanwhile
	}
	e.event, e.Packed, e.loads = event, nil, 0
	l.flyingBytes += int64(weigh(event) - e.size)
	e.size = weigh(event)
}

// carry counts n bytes that an attempt holds beside its payload, until it is called with -n.
func (l *Lanes) carry(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flyingBytes += int64(n)
	l.wake()
}

// land moves an entry's bytes back to the queued account for a retry, or lets go of them where that has no room.
func (l *Lanes) land(e *entry) {
	event, packed := e.event, e.Packed
	l.free(e)
	if e.size == 0 || event == nil && packed == nil || l.queuedBytes+int64(e.size) > l.cfg.MaxBytes/2 {
		return
	}
	e.event, e.Packed, e.charge = event, packed, queued
	l.queuedBytes += int64(e.size)
}

// weigh is what an event counts for: its body and a flat share for the rest, so that empty bodies count too.
func weigh(e *schemas.Event) int { return len(e.Data) + 512 }
