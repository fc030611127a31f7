{{/* An image: (dict "root" $ "of" .Values.images.csi) */}}
{{- define "sampan.image" -}}
{{- with .root.Values.registry }}{{ trimSuffix "/" . }}/{{ end }}{{ .of.name }}:{{ .of.tag }}
{{- end }}

{{/* What all containers have: (dict "root" $ "of" IMAGE) */}}
{{- define "sampan.container" -}}
image: {{ include "sampan.image" . }}
{{- with .root.Values.imagePullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
{{- end }}

{{/* What all pods have. */}}
{{- define "sampan.pod" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- end }}

{{/* A container that needs nothing of the machine. */}}
{{- define "sampan.confined" -}}
securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
{{- end }}
