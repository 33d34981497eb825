package ledger

import "strconv"

// news is what a beat has read of what others may have changed, as one number for each kind of it: where that is another than at the beat before,
// those are told who look for it. So nobody polls for it, and a notification that is lost costs no more than a beat.
type news struct {
	tell  func(payload string) // of [pg.Listeners]
	known map[newsOf]int64     // nil: nothing is, on a new connection
}

type newsOf struct {
	subscription int32 // 0: of all
	what         string
}

// What all processes share, as a payload that no subscription's id is.
const (
	newsPauses    = "pauses"    // pauses, how destinations fare, and how many processes there are
	newsQuestions = "questions" // of which, or of whose end, destinations are to be told now
)

// newsRead has no row of a kind of which there is nothing. Requests are open for a moment, so few rows are read.
const newsRead = `SELECT f.subscription, o.what, sum(o.id)::bigint AS n FROM (
		SELECT 'command' AS what, fence, id FROM commands WHERE ended_at IS NULL
		UNION ALL SELECT 'seek', fence, id FROM seek_requests WHERE ended_at IS NULL
		UNION ALL SELECT 'replay', fence, replay FROM replay_parts WHERE ended_at IS NULL) AS o JOIN fences f ON f.id = o.fence
	WHERE f.subscription = ANY ($1) GROUP BY f.subscription, o.what
UNION ALL SELECT 0, '` + newsQuestions + `', sum(id)::bigint FROM (
	SELECT 2 * id AS id FROM approvals WHERE state = 'waiting' AND tell_at <= now() AND expires_at > now() AND ` + notCopied + `
	UNION ALL SELECT 2 * id + 1 FROM approvals WHERE ` + unclosed + ` AND ` + notCopied + `) AS q HAVING count(*) > 0
UNION ALL SELECT 0, '` + newsPauses + `', hashtextextended(concat_ws('|',
	(SELECT string_agg(d::text, ' ') FROM destinations d),
	(SELECT concat(string_agg(id::text, ' ') FILTER (WHERE ended_at IS NULL), max(ended_at)) FROM pauses),
	(SELECT string_agg(concat(id, ended_at), ' ') FROM subscription_pauses WHERE ended_at IS NULL OR ended_at > now() - interval '30 days'),
	(SELECT count(DISTINCT presence) FROM members WHERE NOT judged)), 0)`

// take takes the news out of what a beat has read, and tells of them.
func (s *news) take(list []absentRow) (others []absentRow) {
	read := map[newsOf]int64{}
	for _, r := range list {
		if r.News == "" {
			others = append(others, r)
			continue
		}
		of := newsOf{r.Subscription, r.News}
		read[of] = r.Presence
		if before, known := s.known[of]; known && before == r.Presence {
			continue
		}
		if of.subscription != 0 {
			s.tell(strconv.Itoa(int(of.subscription)))
		} else {
			s.tell(of.what)
		}
	}
	s.known = read
	return others
}

// WatchPauses calls notify when pauses, how destinations fare or how many processes there are may have changed, in any process, until stop is
// called: within a moment of BeatEvery, or again and again while Postgres cannot be reached for that. notify must not wait.
func (l *Ledger) WatchPauses(notify func()) (stop func()) {
	return l.commandListeners.Add(newsPauses, notify)
}

// WatchUntold is [Ledger.WatchPauses] for what [Ledger.TakeUntold] takes.
func (l *Ledger) WatchUntold(notify func()) (stop func()) {
	return l.commandListeners.Add(newsQuestions, notify)
}
