{{- define "lib.name" }}lib-{{ .Chart.Name }}-{{ .Values.global.region }}{{ end }}
