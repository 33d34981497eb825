package scan

// maxEachDepth is how deep the values may be that [Each] visits: as deep as encoding/json takes them.
const maxEachDepth = 10_000

// Each reads a whole JSON text and calls visit for each member of the object, or element of the array, that the text is; for none if it
// is neither. An element has the key "". Keys are valid Unicode and may come twice; values are only checked for their form. The error is
// an *[Error], or that of visit, after which Each returns.
func Each(body []byte, visit func(key string, v Value) error) error {
	return each(body, false, func(key []byte, v Value) error { return visit(string(key), v) })
}

// EachLoose is Each, but a key that is no valid Unicode is no error: it is given as it stands in the text behind a byte that no text has. A key
// without escapes shares memory with the body.
func EachLoose(body []byte, visit func(key []byte, v Value) error) error {
	return each(body, true, visit)
}

func each(body []byte, loose bool, visit func(key []byte, v Value) error) error {
	g := grower{reader: reader{b: body, i: afterMark(body), deepest: maxEachDepth}, loose: loose}
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

// each is Each of the value at g.i.
func (g *grower) each(visit func(key []byte, v Value) error) error {
	isObject, isArray := g.i < len(g.b) && g.b[g.i] == '{', g.i < len(g.b) && g.b[g.i] == '['
	if !isObject && !isArray {
		return g.reader.value(nil, 0)
	}
	end := byte(']')
	if isObject {
		end = '}'
	}
	done, err := g.open(end, 1)
	g.out = make([]Value, 1)
	for n := (&node{}); !done && err == nil; {
		var key []byte
		if isObject {
			key, err = g.rawKey()
		}
		if err == nil {
			err = g.reader.value(n, 1)
		}
		if err == nil {
			err = visit(key, g.out[0])
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
