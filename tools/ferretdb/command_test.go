package main

import (
	"fmt"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// command makes a random command. As in SQLite a reader can stand in the way of
// a writer, cursors are read to their end or killed before anything else is done.
func (p *player) command() bson.D {
	if len(p.cursors) > 0 {
		id := slices.Sorted(maps.Keys(p.cursors))[0]
		if p.IntN(4) == 0 {
			ids := slices.Collect(maps.Keys(p.cursors))
			return bson.D{{Key: "killCursors", Value: p.collection}, {Key: "cursors", Value: ids}}
		}
		return bson.D{{Key: "getMore", Value: id}, {Key: "collection", Value: p.collection},
			{Key: "batchSize", Value: int32(1 + p.IntN(40))}}
	}
	switch n := p.IntN(100); {
	case n < 30:
		return p.insert()
	case n < 60:
		return p.find()
	case n < 75:
		return p.update()
	case n < 82:
		return p.remove()
	case n < 92:
		return p.count()
	case n < 96:
		return p.createIndex()
	case n < 97:
		return bson.D{{Key: "drop", Value: p.collection}}
	case n < 98:
		return bson.D{{Key: "create", Value: p.collection}}
	default:
		return bson.D{{Key: "ping", Value: int32(1)}}
	}
}

// field is the name of one of few, so that commands meet.
func (p *player) field() string { return []string{"a", "b", "c", "x"}[p.IntN(4)] }

// value is one that a document may hold, and a filter look for. Left out is what
// FerretDB cannot keep in SQLite as it came: NaN, infinity and negative zero.
func (p *player) value() any {
	switch p.IntN(9) {
	case 0, 1:
		return int32(p.IntN(12) - 2)
	case 2:
		return int64(p.IntN(12)) << (40 * p.IntN(2))
	case 3:
		return float64(p.IntN(12))
	case 4:
		return float64(p.IntN(24)) / 2
	case 5:
		return []string{"", "a", "aa", "b", "ä"}[p.IntN(5)]
	case 6:
		return p.IntN(2) == 0
	case 7:
		return nil
	default:
		return bson.DateTime(1e12 + int64(p.IntN(4)))
	}
}

// document has an _id of its own now and then, which may be taken.
func (p *player) document() bson.D {
	d := bson.D{}
	for _, name := range []string{"a", "b", "c", "x"} {
		if p.IntN(3) > 0 {
			d = append(d, bson.E{Key: name, Value: p.value()})
		}
	}
	if p.IntN(8) == 0 {
		d = append(d, bson.E{Key: "sub", Value: bson.D{{Key: "a", Value: p.value()}}})
	}
	if p.IntN(8) == 0 {
		d = append(d, bson.E{Key: "list", Value: bson.A{p.value(), p.value()}})
	}
	var id any
	switch p.IntN(6) {
	case 0:
		id = int32(p.IntN(60))
	case 1:
		id = float64(p.IntN(60))
	case 2:
		id = []string{"a", "b", "c"}[p.IntN(3)]
	default:
		return d
	}
	return slices.Insert(d, p.IntN(len(d)+1), bson.E{Key: "_id", Value: id})
}

func (p *player) insert() bson.D {
	docs := bson.A{}
	for range p.IntN(12) {
		docs = append(docs, p.document())
	}
	return bson.D{{Key: "insert", Value: p.collection}, {Key: "documents", Value: docs},
		{Key: "ordered", Value: p.IntN(3) > 0}}
}

func (p *player) filter() bson.D {
	f := bson.D{}
	for range p.IntN(3) {
		name := p.field()
		switch p.IntN(6) {
		case 0:
			name = "_id"
		case 1:
			name = "nonexistent"
		case 2:
			name = "list"
		}
		if slices.ContainsFunc(f, func(e bson.E) bool { return e.Key == name }) {
			continue
		}
		if p.IntN(2) == 0 {
			f = append(f, bson.E{Key: name, Value: p.value()})
			continue
		}
		var ops bson.D
		for _, op := range [][]string{{"$gt", "$gte", "$eq"}, {"$lt", "$lte"}} {
			if p.IntN(3) > 0 {
				ops = append(ops, bson.E{Key: op[p.IntN(len(op))], Value: p.value()})
			}
		}
		if len(ops) > 0 {
			f = append(f, bson.E{Key: name, Value: ops})
		}
	}
	return f
}

// unknown asks for what there is not. FerretDB notices that only where it comes
// to judge a document by it, so there must be one; MongoDB and Pathwise's own
// server always do.
func (p *player) unknown() []bson.D {
	insert := bson.D{{Key: "insert", Value: p.collection},
		{Key: "documents", Value: bson.A{bson.D{{Key: "x", Value: int32(1)}}}}}
	out := []bson.D{insert, {{Key: "noSuchCommand", Value: int32(1)}}}
	for _, filter := range []bson.D{{{Key: "x", Value: bson.D{{Key: "$nope", Value: int32(1)}}}},
		{{Key: "$nope", Value: int32(1)}}} {
		out = append(out, bson.D{{Key: "find", Value: p.collection}, {Key: "filter", Value: filter}},
			bson.D{{Key: "count", Value: p.collection}, {Key: "query", Value: filter}},
			bson.D{{Key: "update", Value: p.collection},
				{Key: "updates",
					Value: bson.A{bson.D{{Key: "q", Value: filter},
						{Key: "u", Value: bson.D{{Key: "$set", Value: bson.D{{Key: "a", Value: int32(1)}}}}}}}}})
	}
	return out
}

// wide are the commands of mongo-perf's Update.FieldAtOffset, with few documents.
func (p *player) wide() []bson.D {
	var doc bson.D
	for i := range 512 {
		doc = append(doc, bson.E{Key: fmt.Sprintf("a_%d", i), Value: "a"})
	}
	out := []bson.D{{{Key: "insert", Value: p.collection}, {Key: "documents", Value: bson.A{doc, doc, doc}}}}
	for _, v := range []string{"a", "aa", "aa", "a"} {
		u := bson.D{{Key: "q", Value: bson.D{}},
			{Key: "u", Value: bson.D{{Key: "$set", Value: bson.D{{Key: "a_256", Value: v}}}}}, {Key: "multi", Value: true}}
		out = append(out, bson.D{{Key: "update", Value: p.collection}, {Key: "updates", Value: bson.A{u}}},
			bson.D{{Key: "find", Value: p.collection}, {Key: "filter", Value: bson.D{}}})
	}
	return append(out, bson.D{{Key: "drop", Value: p.collection}})
}

func (p *player) find() bson.D {
	cmd := bson.D{{Key: "find", Value: p.collection}, {Key: "filter", Value: p.filter()}}
	switch p.IntN(8) {
	case 0:
		cmd = append(cmd, bson.E{Key: "projection", Value: bson.D{{Key: p.field(), Value: 1.0}}})
	case 1:
		cmd = append(cmd,
			bson.E{Key: "projection", Value: bson.D{{Key: p.field(), Value: true}, {Key: "_id", Value: int32(0)}}})
	case 2:
		cmd = append(cmd, bson.E{Key: "projection", Value: bson.D{{Key: p.field(), Value: int32(0)}}})
	case 3:
		cmd = append(cmd,
			bson.E{Key: "projection", Value: bson.D{{Key: "a", Value: int32(p.IntN(2))}, {Key: "b", Value: int32(p.IntN(2))}}})
	}
	if p.IntN(3) == 0 {
		cmd = append(cmd, bson.E{Key: "batchSize", Value: int32(p.IntN(20))})
	}
	if p.IntN(4) == 0 {
		cmd = append(cmd, bson.E{Key: "limit", Value: int32(p.IntN(10))})
	}
	if p.IntN(4) == 0 {
		cmd = append(cmd, bson.E{Key: "skip", Value: int32(p.IntN(10))})
	}
	if p.IntN(10) == 0 {
		cmd = append(cmd, bson.E{Key: "singleBatch", Value: true})
	}
	return cmd
}

func (p *player) update() bson.D {
	set := bson.D{{Key: p.field(), Value: p.value()}}
	if p.IntN(3) == 0 {
		set = bson.D{{Key: "a", Value: p.value()}, {Key: "new", Value: "aa"}}
	}
	u := bson.D{{Key: "q", Value: p.filter()}, {Key: "u", Value: bson.D{{Key: "$set", Value: set}}},
		{Key: "multi", Value: p.IntN(2) == 0}}
	return bson.D{{Key: "update", Value: p.collection}, {Key: "updates", Value: bson.A{u}}}
}

func (p *player) remove() bson.D {
	d := bson.D{{Key: "q", Value: p.filter()}, {Key: "limit", Value: int32(p.IntN(2))}}
	return bson.D{{Key: "delete", Value: p.collection}, {Key: "deletes", Value: bson.A{d}}}
}

func (p *player) count() bson.D {
	cmd := bson.D{{Key: "count", Value: p.collection}, {Key: "query", Value: p.filter()}}
	if p.IntN(3) == 0 {
		cmd = append(cmd, bson.E{Key: "skip", Value: int32(p.IntN(5))}, bson.E{Key: "limit", Value: int32(p.IntN(5))})
	}
	return cmd
}

func (p *player) createIndex() bson.D {
	name := p.field()
	index := bson.D{{Key: "key", Value: bson.D{{Key: name, Value: 1.0}}}, {Key: "name", Value: name + "_1"}}
	return bson.D{{Key: "createIndexes", Value: p.collection}, {Key: "indexes", Value: bson.A{index}}}
}
