{{- define "tidemark.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- default $full .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{- /* The names under which the service is called: those of its Service, and the given ones. */ -}}
{{- define "tidemark.hosts" -}}
{{- $name := include "tidemark.fullname" . -}}
{{- $in := printf "%s.%s" $name .Release.Namespace -}}
{{- $own := list $name $in (printf "%s.svc" $in) (printf "%s.svc.%s" $in .Values.clusterDomain) -}}
{{- concat $own .Values.access.allowHosts | join "," -}}
{{- end }}

{{- define "tidemark.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tidemark.labels" -}}
{{ include "tidemark.selector" . }}
app.kubernetes.io/version: {{ default .Chart.AppVersion .Values.image.tag | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "tidemark.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "tidemark.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end }}

{{- define "tidemark.scheme" -}}
{{- ternary "HTTPS" "HTTP" (ne .Values.tls.existingSecret "") -}}
{{- end }}
