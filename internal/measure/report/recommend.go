package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"pathwise.dev/pathwise/internal/measure/rank"
)

// Recommend writes recommendations with their reasons as format, one of TableFormats.
func Recommend(w io.Writer, format string, recs []rank.Recommendation, o Options) error {
	switch format {
	case Text, Wide:
		return writeText(w, recommendBlocks(recs, o), o.as(format))
	case Markdown:
		return writeMarkdown(w, recommendBlocks(recs, o))
	case CSV:
		return writeRecommendCSV(w, recs)
	case JSON:
		return writeJSON(w, RecommendDocument{"pathwise/recommendation", 2, recs})
	}
	return unknownFormat(format, TableFormats())
}

// RecommendTable writes the recommendation table, a grid per scenario, as
// format, one of TableFormats.
func RecommendTable(w io.Writer, format string, grids []rank.Grid, o Options) error {
	switch format {
	case Text, Wide, Markdown:
		var blocks []block
		for _, g := range grids {
			blocks = append(blocks, recommendationGrid(g, true))
			for _, r := range g.Rows {
				blocks = append(blocks, para(needText(r.OptimumUnrobust.Need)+": "+r.OptimumUnrobust.Why+"."))
			}
			for _, w := range g.Warnings {
				blocks = append(blocks, alert(w.Gate+": "+w.Text))
			}
		}
		if len(blocks) == 0 {
			blocks = []block{alert("no application was measured: nothing can be recommended")}
		} else {
			blocks = append(blocks, para("The others by --app, --load high and --robust."))
		}
		if format == Markdown {
			return writeMarkdown(w, blocks)
		}
		return writeText(w, blocks, o.as(format))
	case CSV, JSON:
		var recs []rank.Recommendation
		for _, g := range grids {
			for _, r := range g.Rows {
				recs = append(recs, answers(r)...)
			}
		}
		return Recommend(w, format, recs, o)
	}
	return unknownFormat(format, TableFormats())
}

// RecommendDocument is the JSON form of recommendations.
type RecommendDocument struct {
	Format          string                `json:"format"`
	Version         int                   `json:"version"`
	Recommendations []rank.Recommendation `json:"recommendations"`
}

// needText is a need in words: "bulk, optimum load, robust, two-hosts".
func needText(n rank.Need) string {
	robust := "not robust"
	if n.Robust {
		robust = "robust"
	}
	return fmt.Sprintf("%s, %s load, %s, %s", n.App, n.Load, robust, n.Scenario)
}

func recommendBlocks(recs []rank.Recommendation, o Options) []block {
	a := analysis{opts: o}
	var out []block
	for _, r := range recs {
		out = append(out, heading{2, needText(r.Need)}, para(r.Why+"."))
		out = append(out, prospectGrid("", r.Ranking, a.baseline()))
		if s := weighed(r.Ranking.Outlook); s != "" {
			out = append(out, para("Weights: "+s+"."))
		}
		if !slices.Equal(r.Scored, r.Chosen) && len(r.Scored) > 0 {
			out = append(out, para("By the sum of z-scores of Atici and Boluk (2020): "+chosenText(r.Scored)+"."))
		}
		for _, w := range r.Warnings {
			out = append(out, alert(w.Gate+": "+w.Text))
		}
		out = append(out, para(prospectLegend(o, a.baseline())))
	}
	return out
}

// chosenText is "macvlan, tied with bridge and vxlan".
func chosenText(chosen []string) string {
	if len(chosen) == 1 {
		return chosen[0]
	}
	return chosen[0] + ", tied with " + strings.Join(chosen[1:], ", ")
}

func writeRecommendCSV(w io.Writer, recs []rank.Recommendation) error {
	cw := csv.NewWriter(w)
	// Errors stay in the csv.Writer until it is flushed.
	_ = cw.Write([]string{"application", "load", "robust", "placement", "pairs", "mtu", "network", "chosen",
		"rank", "rank_low", "rank_high", "tie", "score", "kernel", "best", "regret", "keeps", "why"})
	for _, r := range recs {
		chosen := map[string]bool{}
		for _, n := range r.Chosen {
			chosen[n] = true
		}
		for _, row := range r.Ranking.Rows {
			_ = cw.Write([]string{r.App, string(r.Load), strconv.FormatBool(r.Robust), r.Scenario.Place(),
				strconv.Itoa(r.Scenario.Pairs), strconv.Itoa(r.Scenario.MTU), row.Network, strconv.FormatBool(chosen[row.Network]),
				strconv.Itoa(row.Rank), strconv.Itoa(row.RankLow), strconv.Itoa(row.RankHigh), strconv.Itoa(row.Tie),
				exact(row.Score), kernelCell(r.Scenario),
				oddsCell(r.Ranking.Outlook, row.Network, func(o rank.Odds) *float64 { return o.Best }),
				oddsCell(r.Ranking.Outlook, row.Network, func(o rank.Odds) *float64 { return o.Regret }),
				oddsCell(r.Ranking.Outlook, row.Network, func(o rank.Odds) *float64 { return o.Keeps }), r.Why})
		}
	}
	cw.Flush()
	return cw.Error()
}

// oddsCell is a network's probability or regret, 0 to 1; empty where it has none.
func oddsCell(o *rank.Outlook, network string, of func(rank.Odds) *float64) string {
	odds, ok := o.Find(network)
	if !ok || of(odds) == nil {
		return ""
	}
	return exact(*of(odds))
}
