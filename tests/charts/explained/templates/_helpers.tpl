{{- define "explained.labels" -}}
app: {{ include "explained.image" . }}
{{- end }}
{{- define "explained.image" -}}
{{ .Values.image.repository }}:{{ .Values.imge.tag }}
{{- end }}
