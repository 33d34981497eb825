package ledger_test

import (
	"context"
	"slices"
	"time"
)

// told waits until a process is told of members that are to leave, and returns them.
func (f *fixture) told(l Ledger) []string {
	f.Helper()
	got := make(chan []string, 1)
	defer l.Absent(func(members []string) {
		select {
		case got <- slices.Sorted(slices.Values(members)):
		default:
		}
	})()
	select {
	case list := <-got:
		return list
	case <-time.After(time.Minute):
		f.Fatal("told of nobody")
		return nil
	}
}

// present waits until a member is present: the process knows of its row a moment after it is there, and of answers late on a busy machine.
func (f *fixture) present(l Ledger, member string) {
	f.Helper()
	for deadline := time.Now().Add(time.Minute); !l.Present(member); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.Fatalf("%s lives and is not present", member)
		}
	}
}

var presence = []property{
	{"the member of a process that has died is to leave, until it is forgotten; one that lives, and one that was not entered, are not", func(f *fixture) {
		dies, lives := f.start(), f.start()
		ctx, over := context.WithCancel(f.ctx())
		defer over()
		seen := make(chan struct{}, 1)
		for n, l := range []Ledger{dies, lives} {
			defer l.Absent(func(members []string) {
				if n == 0 || !slices.Equal(members, []string{"dies"}) && !slices.Equal(members, []string{"third"}) { // the third dies below
					f.Errorf("process %d is told of %v", n, members)
				}
				select {
				case seen <- struct{}{}:
				default:
				}
			})()
		}
		dies.Enter("dies")
		lives.Enter("lives")
		f.s.Entered(f, dies, "dies")
		f.s.Entered(f, lives, "lives")
		f.present(dies, "dies")
		f.present(lives, "lives")
		if !lives.Present("another") {
			f.Error("one that was not entered is not present")
		}
		f.s.Stop(f, dies)
		<-seen
		if dies.Present("dies") {
			f.Error("one that died is present")
		}
		f.present(lives, "lives")
		left := make(chan struct{}, 1)
		defer lives.Left(func() {
			select {
			case left <- struct{}{}:
			default:
			}
		})()
		for len(left) > 0 {
			<-left
		}
		if err := lives.ForgetMember(ctx, "dies"); err != nil {
			f.Fatal(err)
		}
		<-left
		third := f.start()
		defer third.Absent(func([]string) {})()
		third.Enter("third")
		f.s.Entered(f, third, "third")
		f.s.Stop(f, third)
		fourth := f.start()
		if got := f.told(fourth); !slices.Equal(got, []string{"third"}) {
			f.Errorf("told of %v", got)
		}
		if err := fourth.ForgetMember(ctx, "third"); err != nil {
			f.Error(err)
		}
	}},
}
