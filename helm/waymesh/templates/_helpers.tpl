{{/* Name of all objects of the release. */}}
{{- define "waymesh.name" -}}
{{- if contains "waymesh" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-waymesh" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "waymesh.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "waymesh.name" .) }}{{ else }}{{ required "serviceAccount.name is needed when serviceAccount.create is false" .Values.serviceAccount.name }}{{ end }}
{{- end }}

{{/* Labels that select the operator's pods; the selector of a Deployment is immutable. */}}
{{- define "waymesh.selector" -}}
app.kubernetes.io/name: waymesh-operator
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "waymesh.labels" -}}
{{ include "waymesh.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: waymesh
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* The name of an image, by its digest if it has one. */}}
{{- define "waymesh.image" -}}
{{ with .root.Values.imageRegistry }}{{ trimSuffix "/" . }}/{{ end }}{{ .image.repository -}}
{{ if .image.digest }}@{{ .image.digest }}{{ else }}:{{ .image.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end }}

{{/* Permissions of the operator in a watched namespace, the minimum for each resource: it creates and changes objects
     that a Router owns, reads pods and sets an annotation of them, but does not exec into pods or change roles. */}}
{{- define "waymesh.rules" -}}
- apiGroups: [waymesh.io]
  resources: [routers, brokers, autolinks, linkroutes, addresses, vhostpolicies, routerlinks, exchanges]
  verbs: [list, watch]
- apiGroups: [waymesh.io]
  resources:
  - routers/status
  - brokers/status
  - autolinks/status
  - linkroutes/status
  - addresses/status
  - vhostpolicies/status
  - routerlinks/status
  - exchanges/status
  verbs: [patch]
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, create, patch]
- apiGroups: [""]
  resources: [configmaps, secrets]
  verbs: [get, list, watch, create, patch]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, patch] # an annotation, after a Secret has changed
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get]
- apiGroups: [""]
  resources: [events]
  verbs: [list, create, patch]
- apiGroups: [batch]
  resources: [jobs, cronjobs]
  verbs: [list]
{{- if .Values.rbac.exposure }}
- apiGroups: [gateway.networking.k8s.io]
  resources: [tlsroutes, tcproutes]
  verbs: [get, list, create, patch, delete]
- apiGroups: [route.openshift.io]
  resources: [routes]
  verbs: [get, list, create, patch, delete]
- apiGroups: [route.openshift.io]
  resources: [routes/custom-host]
  verbs: [create]
- apiGroups: [networking.k8s.io]
  resources: [ingresses]
  verbs: [get, list, create, patch, delete]
{{- end }}
{{- if .Values.rbac.certManager }}
- apiGroups: [cert-manager.io]
  resources: [certificates, issuers]
  verbs: [get, list, create, patch, delete]
{{- end }}
{{- end }}

{{/* Permissions of the operator in its own namespace: its Lease. Its heartbeat ConfigMap, which it writes and watches,
     is in a watched namespace. */}}
{{- define "waymesh.homeRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, create, patch]
{{- end }}

{{/* "yes" if a definition in the cluster differs from the chart's: at installation, helm creates missing ones from
     crds/, but it never changes any. Without a cluster (`helm template`), lookup finds no definition. */}}
{{- define "waymesh.definitionsDiffer" -}}
{{- $found := dict }}
{{- range $path, $_ := .Files.Glob "crds/*.yaml" }}
{{- $wanted := $.Files.Get $path | fromYaml }}
{{- $spec := $wanted.spec }}
{{- $live := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" (printf "%s.%s" $spec.names.plural $spec.group) }}
{{- if $live }}
{{- $label := "waymesh.io/definitions" }}
{{- if ne (get $wanted.metadata.labels $label) (get ($live.metadata.labels | default dict) $label) }}
{{- $_ := set $found "differs" true }}
{{- end }}
{{- range $name, $value := $spec.names }}
{{- if ne (toJson $value) (toJson (get $live.spec.names $name)) }}{{ $_ := set $found "differs" true }}{{ end }}
{{- end }}
{{- if ne (len $spec.versions) (len $live.spec.versions) }}{{ $_ := set $found "differs" true }}{{ end }}
{{- range $name, $value := first $spec.versions }}
{{- if ne (toJson $value) (toJson (get (first $live.spec.versions) $name)) }}{{ $_ := set $found "differs" true }}{{ end }}
{{- end }}
{{- else if $.Release.IsUpgrade }}{{ $_ := set $found "differs" true }}
{{- end }}
{{- end }}
{{- if $found.differs }}yes{{ end }}
{{- end }}

{{/* Namespace of the mesh and its resources. */}}
{{- define "waymesh.mesh.namespace" -}}
{{ .Values.mesh.namespace | default .Release.Namespace }}
{{- end }}

{{/* Labels of the mesh and its resources; those in the values take precedence. */}}
{{- define "waymesh.mesh.labels" -}}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/part-of: waymesh
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}
