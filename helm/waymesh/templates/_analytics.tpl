{{/* The Spark job that reads exported telemetry. These templates take the root context unless stated otherwise. */}}
{{- define "waymesh.analytics.name" -}}
{{ printf "%s-analytics" (include "waymesh.name" . | trunc 35 | trimSuffix "-") }}
{{- end }}

{{- define "waymesh.analytics.namespace" -}}
{{ .Values.analytics.namespace | default .Release.Namespace }}
{{- end }}

{{- define "waymesh.analytics.image" -}}
{{ include "waymesh.image" (dict "image" .Values.analytics.image "root" .) }}
{{- end }}

{{- define "waymesh.analytics.selector" -}}
app.kubernetes.io/name: waymesh-analytics
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{/* The operator finds the jobs by these labels. */}}
{{- define "waymesh.analytics.labels" -}}
{{ include "waymesh.analytics.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: waymesh
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* The path of a place, {claim, path} or {s3}. Takes the place, and the folder where its claim is mounted. */}}
{{- define "waymesh.analytics.place" -}}
{{- if .place.s3 }}{{ .place.s3 }}{{ else }}{{ printf "%s/%s" .folder .place.path | trimSuffix "/" }}{{ end }}
{{- end }}

{{- define "waymesh.analytics.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "waymesh.analytics.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* Driver and executors need the same volumes, because both read and write the files. */}}
{{- define "waymesh.analytics.volumes" -}}
- name: tmp
  emptyDir: {}
{{- with .Values.analytics.input.claim }}
- name: input
  persistentVolumeClaim:
    claimName: {{ . | quote }}
{{- end }}
{{- if eq (include "waymesh.analytics.outputVolume" .) "output" }}
- name: output
  persistentVolumeClaim:
    claimName: {{ .Values.analytics.output.claim | quote }}
{{- end }}
{{- end }}

{{/* The volume of the output, if any. A pod with the same claim in two volumes does not start. */}}
{{- define "waymesh.analytics.outputVolume" -}}
{{- $a := .Values.analytics }}
{{- if and $a.output.claim (eq $a.output.claim $a.input.claim) }}input{{ else if $a.output.claim }}output{{ end }}
{{- end }}

{{- define "waymesh.analytics.mounts" -}}
- name: tmp
  mountPath: /tmp
{{- if .Values.analytics.input.claim }}
- name: input
  mountPath: /input
{{- end }}
{{- with include "waymesh.analytics.outputVolume" . }}
- name: {{ . }}
  mountPath: /output
{{- end }}
{{- end }}

{{- define "waymesh.analytics.env" -}}
- name: HOME
  value: /tmp
{{- with .Values.analytics.s3.secret }}
{{- range list "AWS_ACCESS_KEY_ID" "AWS_SECRET_ACCESS_KEY" }}
- name: {{ . }}
  valueFrom:
    secretKeyRef:
      name: {{ $.Values.analytics.s3.secret | quote }}
      key: {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{- define "waymesh.analytics.placement" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 0 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 0 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Spark settings, as a map. */}}
{{- define "waymesh.analytics.conf" -}}
{{- $a := .Values.analytics }}
spark.driver.memory: {{ $a.driverMemory }}
{{- with $a.s3.region }}
spark.hadoop.fs.s3a.endpoint.region: {{ . }}
{{- end }}
{{- end }}

{{/* Settings for a driver that starts executors itself, in client mode. Executors connect to bindAddress, so it must be
     the pod's address. The ports are fixed for network policies. */}}
{{- define "waymesh.analytics.clientConf" -}}
{{- $a := .Values.analytics }}
spark.submit.deployMode: client
spark.kubernetes.namespace: {{ include "waymesh.analytics.namespace" . | quote }}
spark.kubernetes.container.image: {{ include "waymesh.analytics.image" . }}
spark.kubernetes.container.image.pullPolicy: {{ $a.image.pullPolicy }}
spark.kubernetes.driver.pod.name: $(POD_NAME)
spark.kubernetes.executor.podTemplateFile: /etc/waymesh/executor.yaml
spark.kubernetes.executor.podTemplateContainerName: executor
spark.kubernetes.executor.request.cores: {{ $a.executor.cpu | quote }}
spark.driver.host: $(POD_IP)
spark.driver.bindAddress: $(POD_IP)
spark.driver.port: "7078"
spark.blockManager.port: "7079"
{{- if $a.dynamicAllocation }}
spark.dynamicAllocation.enabled: "true"
spark.dynamicAllocation.shuffleTracking.enabled: "true"
spark.dynamicAllocation.minExecutors: "0"
spark.dynamicAllocation.maxExecutors: {{ $a.executors | quote }}
{{- else }}
spark.executor.instances: {{ $a.executors | quote }}
{{- end }}
spark.executor.cores: {{ $a.executor.cores | quote }}
spark.executor.memory: {{ $a.executor.memory }}
spark.executor.memoryOverhead: {{ include "waymesh.analytics.overhead" . }}
spark.authenticate: "true"
spark.network.crypto.enabled: "true"
{{- end }}

{{/* Memory of an executor in addition to the heap: each core runs a task outside of Java. */}}
{{- define "waymesh.analytics.overhead" -}}
{{- printf "%dm" (add 384 (mul 400 (int .Values.analytics.executor.cores))) -}}
{{- end }}

{{/* The arguments of `python -m waymesh_analytics`. */}}
{{- define "waymesh.analytics.words" -}}
{{- $a := .Values.analytics }}
- {{ include "waymesh.analytics.place" (dict "place" $a.input "folder" "/input") | quote }}
- {{ include "waymesh.analytics.place" (dict "place" $a.output "folder" "/output") | printf "--out=%s" | quote }}
# The operator reads this file.
- --findings-file=/dev/termination-log
{{- with $a.s3.endpoint }}
- {{ printf "--endpoint=%s" . | quote }}
{{- end }}
{{- range $a.arguments }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{/* The pod of a run. */}}
{{- define "waymesh.analytics.pod" -}}
{{- $a := .Values.analytics }}
{{- $conf := include "waymesh.analytics.conf" . | fromYaml }}
{{- if $a.executors }}
{{- $conf = merge (include "waymesh.analytics.clientConf" . | fromYaml) $conf }}
serviceAccountName: {{ include "waymesh.analytics.name" . }}
{{- else }}
automountServiceAccountToken: false
{{- end }}
enableServiceLinks: false
restartPolicy: Never
securityContext: {{- include "waymesh.analytics.podSecurity" . | nindent 2 }}
{{- include "waymesh.analytics.placement" . }}
containers:
- name: analytics
  image: {{ include "waymesh.analytics.image" . }}
  imagePullPolicy: {{ $a.image.pullPolicy }}
  command: [python, -m, waymesh_analytics]
  args:
  {{- include "waymesh.analytics.words" . | nindent 2 }}
  {{- if $a.executors }}
  - --master=k8s://https://kubernetes.default.svc
  {{- end }}
  {{- range $name, $value := $conf }}
  - --conf={{ $name }}={{ $value }}
  {{- end }}
  workingDir: /tmp
  env:
  {{- include "waymesh.analytics.env" . | nindent 2 }}
  - name: POD_NAME
    valueFrom:
      fieldRef:
        fieldPath: metadata.name
  - name: POD_IP
    valueFrom:
      fieldRef:
        fieldPath: status.podIP
  securityContext: {{- include "waymesh.analytics.containerSecurity" . | nindent 4 }}
  resources: {{- toYaml $a.resources | nindent 4 }}
  volumeMounts:
  {{- include "waymesh.analytics.mounts" . | nindent 2 }}
  {{- if $a.executors }}
  - name: executor
    mountPath: /etc/waymesh
  {{- end }}
volumes:
{{- include "waymesh.analytics.volumes" . | nindent 0 }}
{{- if $a.executors }}
- name: executor
  configMap:
    name: {{ include "waymesh.analytics.name" . }}
{{- end }}
{{- end }}

{{/* The spec of Jobs: of the chart's Job and of its CronJob. */}}
{{- define "waymesh.analytics.jobSpec" -}}
backoffLimit: 2
{{- with .Values.analytics.deadlineSeconds }}
activeDeadlineSeconds: {{ . }}
{{- end }}
template:
  metadata:
    labels: {{- include "waymesh.analytics.labels" . | nindent 6 }}
  spec: {{- include "waymesh.analytics.pod" . | nindent 4 }}
{{- end }}

{{/* The same for a SparkApplication. */}}
{{- define "waymesh.analytics.sparkPod" -}}
env: {{- include "waymesh.analytics.env" . | nindent 0 }}
volumeMounts: {{- include "waymesh.analytics.mounts" . | nindent 0 }}
podSecurityContext: {{- include "waymesh.analytics.podSecurity" . | nindent 2 }}
labels: {{- include "waymesh.analytics.labels" . | nindent 2 }}
{{- end }}
{{- define "waymesh.analytics.sparkSpec" -}}
{{- $a := .Values.analytics }}
type: Python
pythonVersion: "3"
mode: cluster
sparkVersion: {{ $a.sparkVersion | quote }}
image: {{ include "waymesh.analytics.image" . }}
imagePullPolicy: {{ $a.image.pullPolicy }}
mainApplicationFile: local:///opt/waymesh/analyze.py
arguments:
{{- include "waymesh.analytics.words" . | nindent 0 }}
# Use the master that the Spark operator sets.
- --master=
sparkConf:
  spark.authenticate: "true"
  spark.network.crypto.enabled: "true"
  {{- range $name, $value := include "waymesh.analytics.conf" . | fromYaml }}
  {{- if ne $name "spark.driver.memory" }}
  {{ $name }}: {{ $value | quote }}
  {{- end }}
  {{- end }}
volumes: {{- include "waymesh.analytics.volumes" . | nindent 0 }}
restartPolicy:
  type: Never
{{- if $a.dynamicAllocation }}
# The Spark operator then enables shuffle tracking.
dynamicAllocation:
  enabled: true
  minExecutors: 0
  maxExecutors: {{ max 1 $a.executors }}
{{- end }}
driver:
  memory: {{ $a.driverMemory }}
  serviceAccount: {{ $a.sparkServiceAccount }}
  {{- include "waymesh.analytics.sparkPod" . | nindent 2 }}
executor:
  {{- if not $a.dynamicAllocation }}
  instances: {{ max 1 $a.executors }}
  {{- end }}
  cores: {{ $a.executor.cores }}
  memory: {{ $a.executor.memory }}
  memoryOverhead: {{ include "waymesh.analytics.overhead" . }}
  {{- include "waymesh.analytics.sparkPod" . | nindent 2 }}
{{- end }}
