package expression

import (
	"reflect"
	"slices"

	"cel.dev/cel-go/common/types"
	celref "cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/forebay-io/forebay/schemas/scan"
)

// Lazy reads a JSON text for expressions as [JSON] does, but only what an expression names of it: the form of the whole text is checked,
// and where a key that is named stands twice, or a text that is read is no Unicode, the expression fails. What no expression reads may be
// anything. An object or array that is used as a whole (compared, converted, written out) is read as strictly as JSON reads.
//
// The text must not change while the value is used. The value is for one goroutine.
func Lazy(text []byte) (celref.Val, error) { return nothingNamed.read(text) }

// lazyText is what the values of one text share.
type lazyText struct {
	left  int          // how many more values may be read
	found []scan.Value // the places that were named beforehand, by path.slot
	made  []celref.Val // those of them that were asked for

	room struct { // for those two, where little was named
		found [fewNamed]scan.Value
		made  [fewNamed]celref.Val
	}
}

const fewNamed = 6

// value returns a value of the text, and nil for none; what is wrong with it is a *[types.Err]. p is its path if it was named beforehand.
func (l *lazyText) value(v scan.Value, p *path) celref.Val {
	switch v.Kind {
	case scan.Absent:
		return nil
	case scan.Twice:
		return types.WrapErr(&scan.Error{Reason: scan.DuplicateKey, Offset: v.Start})
	case scan.Object:
		return &lazyObject{lazyWhole: lazyWhole{l: l, v: v}, path: p}
	case scan.Array:
		return &lazyArray{lazyWhole: lazyWhole{l: l, v: v}}
	case scan.String:
		text, ok := v.Content()
		if !ok {
			return types.WrapErr(&scan.Error{Reason: scan.BadString, Offset: v.Start})
		}
		return types.String(text)
	case scan.Number:
		return types.DefaultTypeAdapter.NativeToValue(number(v.Raw()))
	case scan.Bool:
		return types.Bool(v.Raw()[0] == 't')
	case scan.Null:
		return types.NullValue
	}
	panic("expression: a value of no kind")
}

// named returns the value at a path, and nil for none.
func (l *lazyText) named(p *path) celref.Val {
	return l.once(&l.made[p.slot], l.found[p.slot], p)
}

// once is value, which it keeps in made; an error is made again, because whoever is given it writes into it where the expression failed.
func (l *lazyText) once(made *celref.Val, v scan.Value, p *path) celref.Val {
	if *made != nil {
		return *made
	}
	value := l.value(v, p)
	if !types.IsError(value) {
		*made = value
	}
	return value
}

// lazyWhole is an object or array, and what it is as a whole.
type lazyWhole struct {
	l     *lazyText
	v     scan.Value
	whole celref.Val // nil: not read yet
}

// all reads the whole value; an error of the text is a *[types.Err].
func (w *lazyWhole) all() celref.Val {
	if w.whole == nil {
		tree, err := scan.Tree(w.v.Raw(), w.l.left, number)
		if err != nil {
			w.whole = types.WrapErr(w.placed(err))
		} else {
			w.whole = types.DefaultTypeAdapter.NativeToValue(tree)
		}
	}
	return w.whole
}

// placed counts an error's place from the beginning of the text.
func (w *lazyWhole) placed(err error) error {
	if e, ok := err.(*scan.Error); ok { //nolint:errorlint // scan returns it as it is
		return &scan.Error{Reason: e.Reason, Offset: w.v.Start + e.Offset}
	}
	return err
}

// ConvertToNative implements [celref.Val].
func (w *lazyWhole) ConvertToNative(t reflect.Type) (any, error) { return w.all().ConvertToNative(t) }

// ConvertToType implements [celref.Val].
func (w *lazyWhole) ConvertToType(t celref.Type) celref.Val {
	switch {
	case t != types.TypeType:
		return w.all().ConvertToType(t)
	case w.v.Kind == scan.Object:
		return types.MapType
	}
	return types.ListType
}

// Value implements [celref.Val].
func (w *lazyWhole) Value() any { return w.all().Value() }

// Equal implements [celref.Val].
func (w *lazyWhole) Equal(other celref.Val) celref.Val {
	all := w.all()
	if types.IsError(all) {
		return all
	}
	return all.Equal(other)
}

// take counts one more value that is found, and reports whether it may be kept.
func (l *lazyText) take() bool {
	l.left--
	return l.left >= 0
}

// tooMany is the error of a value of which not everything could be kept.
func (w *lazyWhole) tooMany() celref.Val {
	return types.WrapErr(&scan.Error{Reason: scan.TooMany, Offset: w.v.Start})
}

// lazyObject is a [traits.Mapper].
type lazyObject struct {
	lazyWhole
	*path                  // nil: it was not named beforehand
	read    bool           // members, byKey and left are set
	members []member       // the first of each key
	byKey   map[string]int // their indices, where there are many
	left    bool           // there were more than may be kept
}

// member is a member of an object. One whose key stands twice has kind Twice.
type member struct {
	key  []byte
	v    scan.Value
	made celref.Val // nil: not asked for
}

// fewMembers is up to how many members are looked through one by one.
const fewMembers = 16

// index finds the members, once.
func (o *lazyObject) index() {
	if o.read {
		return
	}
	o.read = true
	_ = scan.EachLoose(o.v.Raw(), func(key []byte, v scan.Value) error { // its form was checked with the text's
		v.Start += o.v.Start
		if o.left = o.left || !o.l.take(); o.left {
			return nil
		}
		if i := o.member(string(key)); i >= 0 {
			o.members[i].v.Kind, o.members[i].v.Start = scan.Twice, v.Start
			return nil
		}
		o.members = append(o.members, member{key: key, v: v})
		switch n := len(o.members); {
		case n == fewMembers:
			o.byKey = make(map[string]int, 2*n)
			for i := range o.members {
				o.byKey[string(o.members[i].key)] = i
			}
		case n > fewMembers:
			o.byKey[string(key)] = n - 1
		}
		return nil
	})
}

// member returns the index of the member with a key, -1 for none.
func (o *lazyObject) member(key string) int {
	if o.byKey == nil {
		return slices.IndexFunc(o.members, func(m member) bool { return string(m.key) == key })
	}
	if i, found := o.byKey[key]; found {
		return i
	}
	return -1
}

// at returns the value of the member with a key, and nil for none.
func (o *lazyObject) at(key string) celref.Val {
	if p := o.path.to(key); p != nil {
		return o.l.named(p)
	}
	if o.index(); o.left {
		return o.tooMany()
	}
	i := o.member(key)
	if i < 0 {
		return nil
	}
	return o.l.once(&o.members[i].made, o.members[i].v, nil)
}

// Find implements [traits.Mapper].
func (o *lazyObject) Find(key celref.Val) (celref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return nil, false
	}
	v := o.at(string(name))
	return v, v != nil && !types.IsError(v)
}

// Get implements [traits.Indexer].
func (o *lazyObject) Get(key celref.Val) celref.Val {
	if v, _ := o.Find(key); v != nil {
		return v
	}
	return types.NewErr("no such key")
}

// Contains implements [traits.Container].
func (o *lazyObject) Contains(key celref.Val) celref.Val {
	v, found := o.Find(key)
	if v != nil && types.IsError(v) {
		return v
	}
	return types.Bool(found)
}

// Size implements [traits.Sizer].
func (o *lazyObject) Size() celref.Val {
	if o.index(); o.left {
		return o.tooMany()
	}
	return types.Int(len(o.members))
}

// Iterator implements [traits.Iterable]: over the keys, which are read strictly.
func (o *lazyObject) Iterator() traits.Iterator {
	if m, ok := o.all().(traits.Mapper); ok {
		return m.Iterator()
	}
	return &walk{n: 1, at: func(int) celref.Val { return o.all() }}
}

// Type implements [celref.Val].
func (o *lazyObject) Type() celref.Type { return types.MapType }

// lazyArray is a [traits.Lister].
type lazyArray struct {
	lazyWhole
	read     bool
	n        int          // how many elements there are
	elements []scan.Value // all, unless there are more than may be kept
	values   []celref.Val // nil: not asked for
}

// index finds the elements, once.
func (a *lazyArray) index() {
	if a.read {
		return
	}
	a.read = true
	_ = scan.EachLoose(a.v.Raw(), func(_ []byte, v scan.Value) error { // its form was checked with the text's
		if a.n++; a.l.take() {
			a.elements = append(a.elements, v)
		}
		return nil
	})
	a.values = make([]celref.Val, len(a.elements))
}

// at returns the element i, which is there.
func (a *lazyArray) at(i int) celref.Val {
	if len(a.elements) < a.n {
		return a.tooMany()
	}
	v := a.elements[i]
	v.Start += a.v.Start
	return a.l.once(&a.values[i], v, nil)
}

// Get implements [traits.Indexer].
func (a *lazyArray) Get(index celref.Val) celref.Val {
	a.index()
	i, err := types.GetOrError(index)
	switch {
	case err != nil:
		return types.WrapErr(err)
	case i < 0 || i >= a.n:
		return types.NewErr("index out of bounds")
	}
	return a.at(i)
}

// Contains implements [traits.Container].
func (a *lazyArray) Contains(v celref.Val) celref.Val {
	if c, ok := a.all().(traits.Container); ok {
		return c.Contains(v)
	}
	return a.all()
}

// Add implements [traits.Adder].
func (a *lazyArray) Add(other celref.Val) celref.Val {
	if s, ok := a.all().(traits.Adder); ok {
		return s.Add(other)
	}
	return a.all()
}

// Size implements [traits.Sizer].
func (a *lazyArray) Size() celref.Val {
	a.index()
	return types.Int(a.n)
}

// Iterator implements [traits.Iterable].
func (a *lazyArray) Iterator() traits.Iterator {
	a.index()
	return &walk{n: a.n, at: a.at}
}

// Type implements [celref.Val].
func (a *lazyArray) Type() celref.Type { return types.ListType }

// walk goes over n values. Nothing but HasNext and Next is asked of it.
type walk struct {
	celref.Val
	i, n int
	at   func(i int) celref.Val
}

// HasNext implements [traits.Iterator].
func (w *walk) HasNext() celref.Val { return types.Bool(w.i < w.n) }

// Next implements [traits.Iterator].
func (w *walk) Next() celref.Val {
	w.i++
	return w.at(w.i - 1)
}
