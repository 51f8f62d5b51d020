package decide

import (
	"math"
	"time"
)

// ShareMechanisms are those of flows that share networks, where they may.
func ShareMechanisms() []Mechanism {
	const never = time.Duration(math.MaxInt64)
	return []Mechanism{
		{"share", "lets bulk share several networks", "", func(p *Params) { p.Share.On = false }},
		{"share-weigh", "has portions follow what each network carries",
			"", func(p *Params) { p.Share.Even = math.Inf(1) }},
		{"share-check", "looks now and then what one network carries alone",
			"", func(p *Params) { p.Share.CheckFirst, p.Share.CheckMost, p.Share.CheckAgain = never, never, never }},
		{"share-margin", "wants what sharing brings to be no accident of two builds",
			"", func(p *Params) { p.Share.Margin = 0 }},
		{"share-grow", "waits for longer each time that a network adds nothing",
			"", func(p *Params) { p.Share.MostWait = p.Share.FirstWait }},
	}
}
