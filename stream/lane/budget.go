package lane

import "github.com/forebay-io/forebay/schemas"

// charge says on which account of the budget an entry's payload counts.
type charge uint8

const (
	uncharged charge = iota
	queued           // loaded, not running
	inFlight         // from the start of an attempt until its result is recorded
)

// budget bounds the payload bytes in memory: one half is for queued actions, the other for attempts. Callers hold mu.
type budget struct {
	half     int64 // of Config.MaxBytes
	queued   int64 // bytes of the entries charged as queued
	inFlight int64 // bytes of the entries charged as in flight, and of the answers that they may get
	extra    int64 // bytes that attempts hold beside their payloads
	loads    int   // payloads of unknown size that are being loaded
	guess    int64 // the size that a payload of unknown size counts as
}

// bytes returns all payload bytes in memory.
func (b *budget) bytes() int64 { return b.queued + b.inFlight + b.extra }

// keep holds the payload that came with a new entry, as e.event or packed, if the queued half has room for it.
func (b *budget) keep(e *entry, packed []byte) {
	switch {
	case e.event != nil:
		e.size = sizeOf(e.event)
	case packed != nil:
		e.size = len(packed)
	default:
		return
	}
	if b.queued+int64(e.size) > b.half {
		e.event = nil
		return
	}
	e.Packed = packed
	e.charge = queued
	b.queued += int64(e.size)
}

// free gives back what an entry holds.
func (b *budget) free(e *entry) {
	switch e.charge {
	case queued:
		b.queued -= int64(e.size)
	case inFlight:
		b.inFlight -= int64(e.size + e.answer)
		e.answer = 0
	}
	e.charge, e.event, e.Packed = uncharged, nil, nil
}

// fits reports whether an attempt of e may start now, which may get an answer of so many bytes. A payload that is larger than the cap
// runs alone.
func (b *budget) fits(e *entry, answer int) bool {
	held := b.inFlight + b.extra
	if e.size == 0 && (b.loads >= b.maxLoads() || held >= b.half && held > 0) {
		return false
	}
	return held == 0 || held+int64(e.size+answer) <= b.half
}

// maxLoads returns how many payloads of unknown size may be loaded at once.
func (b *budget) maxLoads() int { return int(min(maxLoads, max(1, b.half/b.guess))) }

// start charges an entry as in flight, with room for its answer. Where the size of its payload is not known, a load begins.
func (b *budget) start(e *entry, answer int) {
	if e.charge == queued {
		b.queued -= int64(e.size)
	}
	e.charge = inFlight
	e.answer = answer
	b.inFlight += int64(e.size + answer)
	if e.size == 0 {
		b.loads++
	}
}

// endLoad ends the load of a payload whose size was not known. event is nil if nothing was read.
func (b *budget) endLoad(event *schemas.Event) {
	b.loads--
	if event != nil {
		b.guess = max(int64(sizeOf(event)), b.guess-b.guess/8)
	}
}

// hold keeps the event that was read for an entry in flight. Where the claim was forgotten meanwhile, the entry keeps nothing.
func (b *budget) hold(e *entry, event *schemas.Event) {
	if e.charge != inFlight {
		return
	}
	e.event, e.Packed, e.failedLoads = event, nil, 0
	b.inFlight += int64(sizeOf(event) - e.size)
	e.size = sizeOf(event)
}

// requeue charges an entry as queued again until its next attempt, or frees its payload if there is no room.
func (b *budget) requeue(e *entry) {
	event, packed := e.event, e.Packed
	b.free(e)
	if e.size == 0 || event == nil && packed == nil || b.queued+int64(e.size) > b.half {
		return
	}
	e.event, e.Packed, e.charge = event, packed, queued
	b.queued += int64(e.size)
}

// sizeOf returns how many bytes an event counts as: its body and a flat 512 for the rest.
func sizeOf(e *schemas.Event) int { return len(e.Data) + 512 }
