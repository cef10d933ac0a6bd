// Prints what Argo CD thinks of objects: argocd-health CONFIGMAP.json <OBJECTS.json, a line for each object: NAME STATUS MESSAGE.
// CONFIGMAP is argocd-cm, of which the health checks are read; OBJECTS is a list. The rules are those of Argo CD's own package.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	"github.com/argoproj/argo-cd/v3/util/lua"
	"github.com/argoproj/gitops-engine/pkg/health"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const prefix = "resource.customizations.health."

func main() {
	var config struct{ Data map[string]string }
	file, err := os.ReadFile(os.Args[1])
	check(err)
	check(json.Unmarshal(file, &config))
	overrides := lua.ResourceHealthOverrides{}
	for key, script := range config.Data {
		if name, ok := strings.CutPrefix(key, prefix); ok {
			// argocd-cm writes group and kind with an underscore between them.
			overrides[strings.Replace(name, "_", "/", 1)] = v1alpha1.ResourceOverride{HealthLua: script}
		}
	}
	var list unstructured.UnstructuredList
	check(json.NewDecoder(os.Stdin).Decode(&list))
	for _, object := range list.Items {
		status, err := health.GetResourceHealth(&object, overrides)
		check(err)
		if status == nil {
			status = &health.HealthStatus{Status: "None"}
		}
		fmt.Println(object.GetName(), status.Status, status.Message)
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
