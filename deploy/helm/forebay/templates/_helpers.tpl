{{- define "forebay.name" -}}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{- end -}}

{{- define "forebay.labels" -}}
app.kubernetes.io/name: forebay
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- /* forebay.streams are the values of pods with the stream role, by their part: stream, and stream-NAME of each of ledgers, which has those of stream for what it lacks. */ -}}
{{- define "forebay.streams" -}}
{{- $all := dict "stream" .Values.stream -}}
{{- range $ledger := .Values.ledgers -}}
{{- $part := printf "stream-%s" .name -}}
{{- if hasKey $all $part -}}{{- fail (printf "two of ledgers have the name %s" .name) -}}{{- end -}}
{{- $v := mergeOverwrite (deepCopy $.Values.stream) . (dict "autoscaling" (dict "enabled" false)) -}}
{{- range list "pdb" "nodeSelector" "resources" -}}{{- if hasKey $ledger . -}}{{- $_ := set $v . (get $ledger .) -}}{{- end -}}{{- end -}}
{{- $_ := set $all $part $v -}}
{{- end -}}
{{- toJson $all -}}
{{- end -}}

{{- define "forebay.selector" -}}
app.kubernetes.io/name: forebay
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end -}}

{{- define "forebay.image" -}}
{{- $i := .Values.image -}}
{{- if $i.digest -}}{{ $i.repository }}@{{ $i.digest }}{{- else -}}{{ $i.repository }}:{{ $i.tag | default (printf "v%s" .Chart.AppVersion) }}{{- end -}}
{{- end -}}

{{- /* forebay.files is the content of the ConfigMap: the file, that of the intake if it is another, and the teams' own, whose names have no _. An intake has no ledger with
tokens, and with operator.auth: tokens would answer nobody: it is asked by kubectl exec, on loopback. */ -}}
{{- define "forebay.files" -}}
{{- $config := ternary .Values.config (omit .Values.config "teams_dir") (gt (len .Values.teams) 0) -}}
_main.yaml: |
{{ toYaml $config | indent 2 }}
{{- if $config.operator }}
_intake.yaml: |
{{ toYaml (merge (dict "listen" (merge (dict "operator" "127.0.0.1:9090") $config.listen)) (omit $config "operator")) | indent 2 }}
{{- end }}
{{- range $team, $file := .Values.teams }}
{{ $team }}.yaml: |
{{ toYaml (dict "version" 1 "teams" (dict $team $file)) | indent 2 }}
{{- end }}
{{- end -}}

{{- define "forebay.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "forebay.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- /* forebay.env are the variables of a part: root, values. */ -}}
{{- define "forebay.env" -}}
env:
  - {name: FOREBAY_CONFIG, value: /etc/forebay/forebay.yaml}
  - {name: FOREBAY_LOG_FORMAT, value: {{ .root.Values.logFormat | quote }}}
  {{- with .values.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .values.secrets }}
envFrom:
  {{- range . }}
  - secretRef: {name: {{ . | quote }}}
  {{- end }}
{{- end }}
{{- end -}}

{{- /* forebay.mounts are the mounts of a part: root, values. */ -}}
{{- define "forebay.mounts" -}}
- {name: config, mountPath: /etc/forebay, readOnly: true}
{{- range concat .root.Values.files (.values.files | default list) | uniq }}
- {name: {{ printf "file-%s" . | trunc 63 | quote }}, mountPath: {{ printf "/run/secrets/%s" . | quote }}, readOnly: true}
{{- end }}
- {name: tmp, mountPath: /tmp}
{{- end -}}

{{- /* forebay.volumes are the volumes of a pod: root, values, map (the ConfigMap), file (the key of the main file in it). */ -}}
{{- define "forebay.volumes" -}}
- name: config
  configMap:
    name: {{ .map }}
    items:
      - {key: {{ .file | default "_main.yaml" }}, path: forebay.yaml}
      {{- range $team, $file := .root.Values.teams }}
      - {key: {{ $team }}.yaml, path: teams.d/{{ $team }}.yaml}
      {{- end }}
{{- range concat .root.Values.files (.values.files | default list) | uniq }}
- {name: {{ printf "file-%s" . | trunc 63 | quote }}, secret: {secretName: {{ . | quote }}, defaultMode: 0440}}
{{- end }}
- {name: tmp, emptyDir: {sizeLimit: 64Mi}}
{{- end -}}

{{- /* forebay.pod is the pod of a role: root, part, values. */ -}}
{{- define "forebay.pod" -}}
{{- $role := ternary "intake" "stream" (eq .part "intake") -}}
metadata:
  labels:
    {{- include "forebay.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .part }}
  {{- with .values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "forebay.name" .root }}-{{ .part }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .values.grace }}
  {{- with .root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- include "forebay.podSecurity" . | nindent 4 }}
  topologySpreadConstraints:
    {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
    - maxSkew: 1
      topologyKey: {{ . }}
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "forebay.selector" $ | nindent 10 }}
    {{- end }}
  {{- with .values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: {{ .part }}
      image: {{ include "forebay.image" .root | quote }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      args: ["serve", "--roles", {{ $role | quote }}, {{ with .values.subscriptions }}"--subscriptions", {{ join "," . | quote }}, {{ end }}"--drain", {{ .values.drain | quote }}]
      {{- include "forebay.env" . | nindent 6 }}
      ports:
        {{- if eq .part "intake" }}
        - {name: intake, containerPort: 8080}
        {{- end }}
        {{- if and (eq $role "stream") .root.Values.operator.service }}
        - {name: operator, containerPort: 9090}
        {{- end }}
        {{- if and (eq $role "stream") .root.Values.agents.service }}
        - {name: agents, containerPort: 8091}
        {{- end }}
        - {name: health, containerPort: 9091}
      startupProbe: {httpGet: {path: /livez, port: health}, periodSeconds: 2, failureThreshold: 60}
      livenessProbe: {httpGet: {path: /livez, port: health}, periodSeconds: 10, timeoutSeconds: 5, failureThreshold: 6}
      readinessProbe: {httpGet: {path: "/readyz?role={{ $role }}", port: health}, periodSeconds: 5, timeoutSeconds: 6, failureThreshold: 2}
      securityContext:
        {{- include "forebay.containerSecurity" . | nindent 8 }}
      resources:
        {{- toYaml .values.resources | nindent 8 }}
      volumeMounts:
        {{- include "forebay.mounts" . | nindent 8 }}
        {{- if and (eq .part "intake") .values.spool.enabled }}
        - {name: spool, mountPath: /var/lib/forebay/spool}
        {{- end }}
  volumes:
    {{- include "forebay.volumes" (dict "root" .root "values" .values "map" (printf "%s-config" (include "forebay.name" .root)) "file" (ternary "_intake.yaml" "" (and (eq .part "intake") (not (empty .root.Values.config.operator))))) | nindent 4 }}
{{- end -}}
