package lane

// Waiting counts the loaded actions by destination whose attempt is not under way and not recorded: what waits for its
// turn, its time or the one before it. What was left to the ledger is not in it.
func (l *Lanes) Waiting() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := map[string]int{}
	for _, p := range l.parts {
		for _, la := range p.lanes {
			for e := la.head; e != nil; e = e.next {
				if busy := e == la.head && (la.state == running || la.state == recording); !busy {
					n[e.Destination]++
				}
			}
		}
	}
	return n
}
