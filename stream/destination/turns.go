package destination

import "slices"

// turns are the users that wait: teams in the order of their turns, and in each its users in theirs. A team's own
// destination has users of that team alone.
type turns struct{ teams []*team }

// team is the users of one team; users are those of them that wait.
type team struct {
	name  string
	users []*User
}

func (t *turns) empty() bool { return len(t.teams) == 0 }

// add puts a user behind the others of its team, and its team, where it has not waited, behind the others.
func (t *turns) add(u *User) {
	if u.waiting {
		return
	}
	u.waiting = true
	if u.team.users = append(u.team.users, u); len(u.team.users) == 1 {
		t.teams = append(t.teams, u.team)
	}
}

// next takes out whose turn it is.
func (t *turns) next() *User {
	tm := t.teams[0]
	t.teams = slices.Delete(t.teams, 0, 1)
	u := tm.users[0]
	tm.users = slices.Delete(tm.users, 0, 1)
	if len(tm.users) > 0 {
		t.teams = append(t.teams, tm)
	}
	u.waiting = false
	return u
}

// remove takes out a user that waits no longer.
func (t *turns) remove(u *User) {
	if !u.waiting {
		return
	}
	u.waiting = false
	u.team.users = slices.DeleteFunc(u.team.users, func(o *User) bool { return o == u })
	if len(u.team.users) == 0 {
		t.teams = slices.DeleteFunc(t.teams, func(o *team) bool { return o == u.team })
	}
}

// waiting returns how many users wait.
func (t *turns) waiting() (n int) {
	for _, tm := range t.teams {
		n += len(tm.users)
	}
	return n
}
