{{- define "tillerman.name" -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride | trunc 48 | trimSuffix "-" }}
{{- else if contains "tillerman" .Release.Name }}{{ .Release.Name | trunc 48 | trimSuffix "-" }}
{{- else }}{{ printf "%s-tillerman" .Release.Name | trunc 48 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "tillerman.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "tillerman.name" .) }}
{{- end }}

{{- define "tillerman.selector" -}}
app.kubernetes.io/name: tillerman
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tillerman.labels" -}}
{{ include "tillerman.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "tillerman.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- define "tillerman.agentImage" -}}
{{- with .Values.agentImage }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- /* The watches file: the entries of the built-in kinds. With MySQLCluster, a PhpApp and a WordPress wait for their database. */}}
{{- define "tillerman.watches" -}}
{{- range $kind := list "etcd" "mysql" "php" "wordpress" }}
{{- if index $.Values.builtIn $kind }}
{{- $entries := $kind }}
{{- if and (has $kind (list "php" "wordpress")) $.Values.builtIn.mysql }}
{{- $entries = printf "%s-with-mysql" $kind }}
{{- end }}
{{ $.Files.Get (printf "files/watches-%s.yaml" $entries) | trim }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The ClusterRoles that are bound wherever custom resources are served, as a list of names. */}}
{{- define "tillerman.servingRoles" -}}
{{- range $kind := list "etcd" "mysql" "php" "wordpress" }}
{{- if index $.Values.builtIn $kind }}
- {{ include "tillerman.name" $ }}-{{ $kind }}
{{- end }}
{{- end }}
{{- if .Values.chartDefinitions }}
- {{ include "tillerman.name" . }}-definitions
{{- end }}
{{- if .Values.notices }}
- {{ include "tillerman.name" . }}-notices
{{- end }}
{{- if .Values.chartRights }}
- {{ include "tillerman.name" . }}-charts
{{- end }}
{{- end }}

{{- /* A subject of bindings. */}}
{{- define "tillerman.subjects" -}}
subjects:
  - kind: ServiceAccount
    name: {{ include "tillerman.serviceAccount" . }}
    namespace: {{ .Release.Namespace }}
{{- end }}
