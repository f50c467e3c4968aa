// SPDX-License-Identifier: Apache-2.0

// Asks a server as Grafana's data source for Pyroscope does, with the published client library, and prints the answers as
// one JSON object. It is compiled by bench/viewers.py.
//
//	viewers URL START END TYPE SELECTOR [json]
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"

	"connectrpc.com/connect"
	querierv1 "github.com/grafana/pyroscope/api/gen/proto/go/querier/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/querier/v1/querierv1connect"
	typesv1 "github.com/grafana/pyroscope/api/gen/proto/go/types/v1"
)

var failures = map[string]string{}

// get returns the message, or notes the error.
func get[T any](name string, r *connect.Response[T], err error) *T {
	if err != nil {
		failures[name] = connect.CodeOf(err).String()
		return new(T)
	}
	return r.Msg
}

func main() {
	url, id, selector := os.Args[1], os.Args[4], os.Args[5]
	start, _ := strconv.ParseInt(os.Args[2], 10, 64)
	end, _ := strconv.ParseInt(os.Args[3], 10, 64)
	var options []connect.ClientOption
	if len(os.Args) > 6 {
		options = append(options, connect.WithProtoJSON())
	}
	c := querierv1connect.NewQuerierServiceClient(http.DefaultClient, url, options...)
	ctx := context.Background()
	out := map[string]any{}

	types, err := c.ProfileTypes(ctx, connect.NewRequest(&querierv1.ProfileTypesRequest{Start: start, End: end}))
	ids := []string{}
	for _, t := range get("ProfileTypes", types, err).ProfileTypes {
		ids = append(ids, t.ID)
	}
	out["types"] = ids

	names, err := c.LabelNames(ctx, connect.NewRequest(&typesv1.LabelNamesRequest{Matchers: []string{selector}, Start: start, End: end}))
	out["labels"] = get("LabelNames", names, err).Names
	values, err := c.LabelValues(ctx, connect.NewRequest(&typesv1.LabelValuesRequest{Name: "service_name", Matchers: []string{selector}, Start: start, End: end}))
	out["services"] = get("LabelValues", values, err).Names
	sets, err := c.Series(ctx, connect.NewRequest(&querierv1.SeriesRequest{Matchers: []string{selector}, LabelNames: []string{"service_name"}, Start: start, End: end}))
	out["sets"] = len(get("Series", sets, err).LabelsSet)

	step := float64(end-start) / 1000
	series, err := c.SelectSeries(ctx, connect.NewRequest(&querierv1.SelectSeriesRequest{ProfileTypeID: id, LabelSelector: selector, Start: start, End: end,
		Step: step, GroupBy: []string{"service_name"}}))
	sums := map[string]float64{}
	for _, s := range get("SelectSeries", series, err).Series {
		for _, p := range s.Points {
			// The point at start is about the time before it.
			if p.Timestamp > start {
				sums[s.Labels[0].Value] += p.Value
			}
		}
	}
	out["sums"] = sums

	nodes := int64(1 << 20)
	stacks := &querierv1.SelectMergeStacktracesRequest{ProfileTypeID: id, LabelSelector: selector, Start: start, End: end, MaxNodes: &nodes}
	graph, err := c.SelectMergeStacktraces(ctx, connect.NewRequest(stacks))
	g := get("SelectMergeStacktraces", graph, err).Flamegraph
	if g != nil {
		self := map[string]int64{}
		for _, l := range g.Levels {
			for i := 0; i < len(l.Values); i += 4 {
				self[g.Names[l.Values[i+3]]] += l.Values[i+2]
			}
		}
		out["total"], out["self"] = g.Total, self
	}
	diff, err := c.Diff(ctx, connect.NewRequest(&querierv1.DiffRequest{Left: stacks, Right: stacks}))
	d := get("Diff", diff, err).Flamegraph
	out["diff"] = []int64{d.GetLeftTicks(), d.GetRightTicks()}

	stacks.Format = querierv1.ProfileFormat_PROFILE_FORMAT_PPROF
	pprof, err := c.SelectMergeStacktraces(ctx, connect.NewRequest(stacks))
	var sum int64
	for _, s := range get("SelectMergeStacktraces pprof", pprof, err).GetPprof().GetProfile().GetSample() {
		sum += s.Value[0]
	}
	out["pprof"] = sum
	whole, err := c.SelectMergeProfile(ctx, connect.NewRequest(&querierv1.SelectMergeProfileRequest{ProfileTypeID: id, LabelSelector: selector, Start: start, End: end}))
	out["samples"] = len(get("SelectMergeProfile", whole, err).Sample)

	stats, err := c.GetProfileStats(ctx, connect.NewRequest(&typesv1.GetProfileStatsRequest{}))
	out["ingested"] = get("GetProfileStats", stats, err).DataIngested
	_, err = c.SelectMergeSpanProfile(ctx, connect.NewRequest(&querierv1.SelectMergeSpanProfileRequest{ProfileTypeID: id, Start: start, End: end}))
	out["spans"] = connect.CodeOf(err).String()
	out["failures"] = failures
	text, _ := json.Marshal(out)
	fmt.Println(string(text))
}
