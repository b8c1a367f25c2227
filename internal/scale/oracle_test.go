package scale

// oracle returns how many instances, as fractions, a plan uses in each minute
// that knows all arrivals beforehand. It completes each parcel within the
// latency target and keeps the minimum of the rules, it needs no time to start
// instances and changes them at will. Its line is the shortest way between what
// has arrived and what must be done, so no plan has a lower maximum.
func oracle(parcels []parcel, floor float64) (instances []float64, hours float64) {
	const minutes = dayLength / 60
	target := int(dayTarget.Minutes())
	arrived, due := make([]float64, minutes+1), make([]float64, minutes+1) // instance-minutes until a minute
	for _, p := range parcels {
		work := float64(p.work) / 60 / dayHands
		if m := p.due/60 + 1; m <= minutes {
			arrived[m] += work
		}
		due[min(p.due/60+target, minutes)] += work
	}
	for m := range minutes {
		arrived[m+1] += arrived[m]
		due[m+1] += due[m]
	}
	arrived[minutes] = max(arrived[minutes], due[minutes])
	instances = make([]float64, minutes)
	for at, done := 0, 0.0; at < minutes; {
		// The steepest and the flattest line from here that stay between the two.
		low, high, lowAt, highAt := 0.0, 1e9, minutes, minutes
		for m := at + 1; m <= minutes; m++ {
			up, down := max(0, arrived[m]-done)/float64(m-at), (due[m]-done)/float64(m-at)
			if down > high {
				lowAt = highAt
				low = high
				break
			}
			if up < low {
				break
			}
			if down >= low {
				low, lowAt = down, m
			}
			if up <= high {
				high, highAt = up, m
			}
		}
		for ; at < lowAt; at++ {
			instances[at] = max(low, floor)
			hours += instances[at] / 60
			done += low
		}
	}
	return instances, hours
}
