// Package gate decides what becomes of every record: applied, duplicate, stale, late, conflict, buffered, parked,
// filtered or quarantined, always with a reason.
//
// It is pure: no I/O, no clock, no randomness. The ledger gives it the state of the entities that a batch touches, it
// gives back the outcomes and has advanced that state in place. Whoever rolls back throws the state away. The same
// records give the same outcomes however they are cut into batches.
//
// The questions come in this order: decodable? seen? filtered? version? gap? This is every answer. In this text a line is always a
// version line, and a place is one value of a line of kind sequence:
//
//	decision     reason          when
//	quarantined  undecodable     the record is not a CloudEvent of ours; nothing of it is remembered
//	quarantined  data_rejected   the database refused its data (said by the ledger, through Record.Broken)
//	quarantined  misplaced       in another partition than its key's, where no order per entity would hold for it
//	quarantined  too_large       larger than what the stream reads: only its beginning is kept
//	quarantined  expression      match has failed on it, and it was not seen before: nothing of it is remembered, and its place is missing
//	duplicate    seen            same key, same body hash: decided before, in this batch, or waiting in the buffer
//	duplicate    key             another event with its second key came first (Policy.Also); it is remembered, and fills its place
//	conflict     body_differs    same key, another body hash; the first one stays what is remembered
//	filtered     type            the subscription's types leave it out (see below)
//	filtered     match           its match does
//	applied      arrival         order: arrival, or kind none: no line is touched
//	applied      first           begins its line: unknown, or of another kind until now
//	applied      new_epoch       begins its line again: of a higher epoch, whatever its value and whatever start says
//	applied      next            newer than the line; for kind sequence, exactly the next value
//	applied      equal           the line's own version under another id (with first and hold, if nothing of it ran yet)
//	applied      backfilled      a synthetic snapshot above its line, or that begins it: what is missing below is in it
//	applied      released        waited or was parked, and the line reached it
//	applied      gap_skipped     stands behind a gap whose wait ended or had no length (then: skip), or whose line ended
//	applied      gap_dead        the same with then: dead_letter: its actions are dead letters at once
//	applied      redriven        was held (older_held, equal_held), and an operator lets it run
//	late         redriven        the same, of one that its line is past
//	applied      again           ran before, and a replay runs it again; its line is not past it
//	late         again           the same, and the line is past it: not a snapshot, or older ones were asked for
//	late         older_delta     not a snapshot, and below the line or the first value of one that has not begun
//	late         older           the same for a snapshot, with stale: deliver_marked
//	late         filler          kind sequence: fills a place that was skipped, and is no snapshot, or those are wanted
//	late         equal_first     equal: first (or synthetic), and the line's own version again: marked as if older
//	late         gap_dead        late/equal_first behind a gap that ends in dead letters: given up as well
//	stale        older           a snapshot below the line, or below the first value of a line that has not begun
//	stale        older_delta     the same for what is not a snapshot, with stale: drop
//	stale        filler          kind sequence: a snapshot that fills a place that was skipped
//	stale        equal_first     equal: first (or synthetic), and the line's own version again: dropped as if older
//	stale        equal_last      equal: last, and a later snapshot of its version waited with it
//	stale        discarded       was held, and an operator gives it up
//	buffered     gap             kind sequence: places before it are missing; waits with a deadline
//	buffered     start_gap       the line has not begun (start: first, or others wait), and this is not its first value
//	buffered     start_backfill  the line has not begun (start: backfill): waits for the backfill, which has been asked for
//	parked       gap_expired     the wait ended or had no length (then: park): held until its filler or an operator comes
//	parked       overflow        too much for a cap of events or of bytes, and what waited on its line with it
//	parked       behind_park     places before it are missing on a line that is parked
//	parked       older_held      below the line, and stale: hold: held: kept alone for an operator
//	parked       equal_held      equal: hold, and the line's own version again; or equal: first and stale: hold
//
// # Lines
//
// A line is one clock of one entity. Versions compare by epoch, then inside it by value, text (bytewise) and sub.
// Timestamps are clamped to the record's append time plus the allowed skew first. A deletion is an event like any other
// and keeps the line.
//
// An epoch is one incarnation of a provider's counter. Where the provider says it (Version.Epoch of the record), a higher
// one than the line's begins the line again, whatever start says (new_epoch): what waited on the old one, parked or not,
// goes first in its order (gap_skipped, or gap_dead), and its skipped places are forgotten. Where that takes more than one
// step (Policy.MaxReleases), the events of the higher one wait behind it, in their order, and the lowest of them begins the
// line. A lower one is below the line, whatever its value and kind. Values are dense inside an epoch only, so no gap spans two. A record without an
// epoch is taken to be of its line's. So if a provider sets a counter back and does not say so, its values are below the
// line: the gate cannot tell them from late events.
//
// Values of different kinds do not compare inside an epoch, and neither do texts and counters of kind monotonic. An event of another
// kind than its line's begins the line again, whatever start says; what waited on the old one, parked or not, goes first
// in its order (gap_skipped, or gap_dead), as no filler can come, and in steps as with a higher epoch. What comes of the old
// kind meanwhile still has its place; what comes of a third one has all go at once.
//
// With start: first, an event without First begins its line like with start: any, unless others are waiting for the
// beginning already: then it joins them, whatever start says by now. A value below the first one is stale or late and
// begins nothing. Should a line begin above events that wait (the promised first value was changed), they are decided as
// what they are now, below it.
//
// # Stale and equal
//
// What stale does goes by the payload's kind, as the source's mapping gives it: a snapshot is dropped with a record, a
// delta or a body of unknown kind is delivered marked, as late. Only strictly lower is stale. A subscription may want it
// otherwise (Policy.Stale): drop, deliver_marked or hold. A filler of a skipped place that is no snapshot is late whatever it says.
//
// A held event (Outcome.Held) is kept alone for an operator. It does not enter the buffer, park its
// line or move it, and it is remembered as seen, so that its redelivery is a duplicate. A filtered one is filtered.
//
// Events of one version and sub under different ids are common, because providers' clocks are coarse. With equal: apply
// all of them run, in the log's order. With first, the one that ran is kept, and what comes after it is dealt with as if
// it were older, held included; with hold, an operator decides about each that comes after it. Where the one before was
// filtered, nothing ran, and the next one that is wanted is the first. With last, each runs when it comes and so has the
// last word, and of snapshots that have waited together only the last in the log runs: the ones before it (not before a
// delta, or one that is filtered) would be overwritten at once. What last means for actions that wait in a lane is the
// backlog's business.
//
// # Gaps
//
// Only kind sequence has gaps. The next value applies and releases what follows it densely, in version order; two
// waiting events of one version are both kept and both released. A gap that is skipped is remembered in VersionLine.Skipped,
// the newest MaxSpans of them: the filler that comes after all is late, once per place, marked, and does not move the
// line. A snapshot is stale instead, since newer ones have run (P4), unless Policy.LateSnapshots asks for every event. Before a line has begun, the places from the first value on count as skipped.
//
// With then: dead_letter, what skip would release is given up instead (Outcome.Dead): its actions become dead letters
// at once, which an operator may replay. The line, the places that are remembered as skipped and the lanes go on as with
// skip, and what follows later runs.
//
// On a parked line, values at or below the line are decided as ever, the next one applies and releases, and when
// nothing waits any more the line is not parked any more. Nothing is dropped at a cap: it turns events that wait with a
// deadline into parked ones, and how many of those there are is for the ledger to bear and for an operator to end.
// Where many wait for one filler or operator, Policy.MaxReleases of them go in one call. The line has reached those that are left (Releasing),
// and the next calls let them go; what comes for the line meanwhile waits behind them.
// Where the order is by arrival now, and events wait from when it was by version, the next event of their line or the end of their wait lets all of
// them go, parked or not and in their order, before anything newer (gap_skipped, released): they came before it.
// A wait of no length (GapWait 0) never buffers: the gap is skipped or given up, or the line parked, with the event that
// shows it.
//
// # Backfill
//
// With then: backfill the end of a wait is a question: State.Requests gets the places that are missing, and what waits
// on the line is Backfilling from then on, Buffered still, with a deadline of another length (BackfillWait). What comes
// to the line meanwhile joins it. Fillers of any origin release as ever. When what stood behind that gap has gone, what
// still waits does so behind another gap, for GapWait, and is asked about by itself. A wait that ends while its line is
// Backfilling ends as Otherwise says: skip, park (the default) or dead_letter. A GapWait of 0 asks with the event that
// shows the gap.
//
// With start: backfill the first event of an unknown line waits, of every kind but none, and a backfill is asked for at
// once. What comes next waits with it, in version order, until a synthetic event comes and begins the line, or the first
// value that the provider promises does, or the wait ends in Otherwise; skip then starts with the lowest event, as with
// start: any. The promised first value asks nothing, because nothing is below it, and neither does a filtered event: it
// leaves the line unknown.
//
// What a backfill fetched comes as records with Backfill set. They are decided like any other, by their own id and
// version, with three differences:
//
//   - A snapshot above its line is never ahead of its turn: what is missing below is in it. It applies (backfilled), on
//     a parked line too, and no place is remembered as skipped for its sake. What waited up to its version is decided
//     as what it is now, stale, late or equal, and what follows densely is released.
//   - On a line that has not begun, a snapshot begins it, and with start: backfill a delta too.
//   - One of the line's own version is never a second event of it: where something of that version ran, it is dealt with
//     as with equal: first.
//
// So an answer that comes when nothing is missing any more is a duplicate, stale or late. One that the filter does not
// want fills its place and covers nothing.
//
// # Reprocess
//
// A replay that runs again what ran ([Reprocess]) asks less: seen, in its own generation? filtered? older than the line? It never moves a line, and
// nothing of it waits. So it cannot undo what is newer: an older snapshot is stale as ever, unless older ones are asked for. A filtered event
// of kind sequence is newer, too, although nothing of it ran. Where nothing tells what is newer (kind none, order: arrival, events of one
// version, whatever Policy.Equal says), events run again in the order in which they are given.
//
// # Second keys
//
// Of two events with one second key (Record.Also) the one that comes first is decided as ever, and the other is a duplicate (key) for
// Policy.Also. Which came first is in State.Also, for all partitions. The other is remembered as seen, so that its redelivery is a duplicate
// whenever it comes. It moves and fills what a filtered event does.
//
// # Filtered events
//
// A filtered event of kind sequence moves its line exactly as if it were wanted, so that the filter makes no gaps: it
// is `filtered` where it would be applied, late or stale, it is buffered or parked where it is ahead of its turn (with
// Record.Filtered set; its release is then `filtered`), and it leaves the line marked with VersionLine.Filtered. Of other
// kinds it leaves the line alone.
//
// Filtered events are not remembered as seen: after the filter is mended, a rewind decides them again. One whose
// version is the line's own then applies (equal), one that waits in the buffer leaves it (filtered) and is decided
// again, one that would fill a skipped place still does. Any other one lies below the line and is what it looks like: a
// delta is late and runs, a snapshot is stale, because a newer one has run or is the line's own. Nothing remembers
// which places below a line were filtered.
package gate
