// Measures Helm's own library on charts: loading, and rendering up to sorted manifests and hooks.
//
//	bench TIMES CHART...
//
// prints a line for each chart: its folder, and the shortest of TIMES runs of each part in nanoseconds: load, render,
// sort. What `helm template` does around it (flags, printing) is not measured. Helm's rendering changes the chart it
// renders, so each run loads it anew.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"helm.sh/helm/v4/pkg/chart/common"
	commonutil "helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
)

func once(path string) (load, render, sort time.Duration, err error) {
	start := time.Now()
	chart, err := loader.Load(path)
	if err != nil {
		return
	}
	load = time.Since(start)
	start = time.Now()
	user := map[string]any{}
	if err = chartutil.ProcessDependencies(chart, user); err != nil {
		return
	}
	options := common.ReleaseOptions{Name: "rel", Namespace: "ns", Revision: 1, IsInstall: true}
	capabilities := common.DefaultCapabilities.Copy()
	values, err := commonutil.ToRenderValuesWithSchemaValidation(chart, user, options, capabilities, os.Getenv("SKIP_SCHEMA") != "")
	if err != nil {
		return
	}
	var e engine.Engine
	files, err := e.Render(chart, values)
	if err != nil {
		return
	}
	render = time.Since(start)
	start = time.Now()
	for name := range files {
		if len(name) > 9 && name[len(name)-9:] == "NOTES.txt" {
			delete(files, name)
		}
	}
	_, _, err = releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	sort = time.Since(start)
	return
}

func main() {
	times, err := strconv.Atoi(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "usage: bench TIMES CHART...")
		os.Exit(2)
	}
	for _, path := range os.Args[2:] {
		var best [3]time.Duration
		for i := range times {
			load, render, sort, err := once(path)
			if err != nil {
				fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
				best = [3]time.Duration{}
				break
			}
			for j, d := range []time.Duration{load, render, sort} {
				if i == 0 || d < best[j] {
					best[j] = d
				}
			}
		}
		if best[0] > 0 {
			fmt.Printf("%s\t%d\t%d\t%d\n", path, best[0], best[1], best[2])
		}
	}
}
