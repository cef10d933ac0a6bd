// Package v1 stands in for the plugin of operator-sdk for Ansible, whose module is not to be had everywhere. It offers nothing.
package v1

import (
	"sigs.k8s.io/kubebuilder/v4/pkg/config"
	v3 "sigs.k8s.io/kubebuilder/v4/pkg/config/v3"
	"sigs.k8s.io/kubebuilder/v4/pkg/plugin"
)

// Plugin is a plugin without a command.
type Plugin struct{}

// Name of the plugin.
func (Plugin) Name() string { return "base.ansible.sdk.operatorframework.io" }

// Version of the plugin.
func (Plugin) Version() plugin.Version { return plugin.Version{Number: 1} }

// SupportedProjectVersions of the plugin.
func (Plugin) SupportedProjectVersions() []config.Version { return []config.Version{v3.Version} }
