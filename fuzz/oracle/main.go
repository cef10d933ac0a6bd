// Renders charts with Helm's own library: reads a JSON object a line on standard input, answers with one a line.
//
//	{"files": {"Chart.yaml": "…", "templates/a.yaml": "…"}, "values": "the user's, YAML"}
//	{"notes": "…", "manifests": [[file, kind, text]…], "hooks": [[file, kind, name, text, weight]…]}
//	{"error": "…"}
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path"
	"runtime/debug"
	"sort"
	"strconv"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	commonutil "helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
)

type request struct {
	Files  map[string]string `json:"files"`
	Values string            `json:"values"`
}

type answer struct {
	Notes     string     `json:"notes"`
	Manifests [][]string `json:"manifests"`
	Hooks     [][]string `json:"hooks"`
	Error     *string    `json:"error,omitempty"`
}

func load(files map[string]string) (*chart.Chart, error) {
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	sort.Strings(names)
	var all []*archive.BufferedFile
	for _, name := range names {
		all = append(all, &archive.BufferedFile{Name: name, Data: []byte(files[name])})
	}
	return loader.LoadFiles(all)
}

// render does what `helm template` does between reading its arguments and printing.
func render(r request) (*answer, error) {
	c, err := load(r.Files)
	if err != nil {
		return nil, err
	}
	user, err := loader.LoadValues(strings.NewReader(r.Values))
	if err != nil {
		return nil, err
	}
	if err := chartutil.ProcessDependencies(c, user); err != nil {
		return nil, fmt.Errorf("chart dependencies processing failed: %w", err)
	}
	options := common.ReleaseOptions{Name: "rel", Namespace: "ns", Revision: 1, IsInstall: true}
	capabilities := common.DefaultCapabilities.Copy()
	values, err := commonutil.ToRenderValuesWithSchemaValidation(c, user, options, capabilities, false)
	if err != nil {
		return nil, err
	}
	if c.Metadata.KubeVersion != "" && !chartutil.IsCompatibleRange(c.Metadata.KubeVersion, capabilities.KubeVersion.String()) {
		return nil, fmt.Errorf("chart requires kubeVersion: %s which is incompatible with Kubernetes %s", c.Metadata.KubeVersion, capabilities.KubeVersion.Version)
	}
	var e engine.Engine
	files, err := e.Render(c, values)
	if err != nil {
		return nil, err
	}
	a := &answer{Manifests: [][]string{}, Hooks: [][]string{}}
	for name, text := range files {
		if strings.HasSuffix(name, "NOTES.txt") {
			if name == path.Join(c.Name(), "templates", "NOTES.txt") {
				a.Notes = text
			}
			delete(files, name)
		}
	}
	hooks, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		return nil, err
	}
	for _, m := range manifests {
		a.Manifests = append(a.Manifests, []string{m.Name, m.Head.Kind, m.Content})
	}
	for _, h := range hooks {
		a.Hooks = append(a.Hooks, []string{h.Path, h.Kind, h.Name, h.Manifest, strconv.Itoa(h.Weight)})
	}
	return a, nil
}

func main() {
	// A template that calls itself for ever ends this process; the comparison starts it again.
	debug.SetMaxStack(256 << 20)
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			fmt.Fprintln(os.Stderr, "bad request:", err)
			os.Exit(2)
		}
		a, err := render(r)
		if err != nil {
			text := err.Error()
			a = &answer{Error: &text}
		}
		if err := out.Encode(a); err != nil {
			return
		}
	}
}
