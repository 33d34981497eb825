package scan

// maxHandedOn is how deep the values may be that [Each] hands on: as deep as encoding/json takes them.
const maxHandedOn = 10_000

// Each reads a whole JSON text and visits the members of the object, or the elements of the array, that it is: no other
// kind has any. An element has no key. Keys are valid Unicode and may stand there twice; values are checked for their form.
// The error is an *[Error], or visit's own, which ends it.
func Each(body []byte, visit func(key string, v Value) error) error {
	g := grower{reader: reader{b: body, deepest: maxHandedOn}}
	g.space()
	if err := g.each(visit); err != nil {
		return err
	}
	g.space()
	if g.i != len(body) {
		return g.fail(Syntax)
	}
	return nil
}

func (g *grower) each(visit func(key string, v Value) error) error {
	end := byte(']')
	switch {
	case g.i == len(g.b) || g.b[g.i] != '{' && g.b[g.i] != '[':
		return g.reader.value(nil, 0)
	case g.b[g.i] == '{':
		end = '}'
	}
	done, err := g.open(end, 1)
	for !done && err == nil {
		key := ""
		if end == '}' {
			key, err = g.key()
		}
		var v [1]Value
		g.out = v[:]
		if err == nil {
			err = g.reader.value(&node{}, 1)
		}
		if err == nil {
			err = visit(key, v[0])
		}
		if err == nil {
			done, err = g.more(end)
		}
	}
	return err
}

// Content is a string's content as text. ok is false for other kinds, and where it is not valid Unicode.
func (v Value) Content() (text string, ok bool) {
	if v.Kind != String {
		return "", false
	}
	return unescape(v.raw[1 : len(v.raw)-1])
}
