package decide

// Scores returns the z-score of each path that could be chosen, by the method of
// the policies (Atici and Boluk 2020, equation 1), as a policy in state s sees it.
func Scores(s State, ev PairEvidence) map[string]float64 {
	turn := newStep(s, nil)
	out := map[string]float64{}
	for _, f := range turn.figures(ev, turn.need(ev)) {
		out[f.path.Network] = f.score
	}
	return out
}
