{{- define "fairlead.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository (.tag | default $.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The keys of programs among the values and the names of their objects, in order. */ -}}
{{- define "fairlead.programs" -}}
konnector: konnector
binding: fairlead-binding
provider: fairlead-provider
postgres: fairlead-postgres
serve: fairlead-serve
{{- end -}}

{{- define "fairlead.order" -}}
["konnector", "binding", "provider", "postgres", "serve"]
{{- end -}}

{{- /* Labels of an object of a program; takes the root and the program's key. */ -}}
{{- define "fairlead.labels" -}}
{{- $root := index . 0 -}}
{{- $key := index . 1 -}}
{{- with omit $root.Values.labels "app.kubernetes.io/name" "app.kubernetes.io/part-of" }}
{{- toYaml . }}
{{ end -}}
{{ include "fairlead.selector" $key }}
{{- end -}}

{{- define "fairlead.selector" -}}
app.kubernetes.io/name: {{ get (include "fairlead.programs" . | fromYaml) . }}
app.kubernetes.io/part-of: fairlead
{{- end -}}

{{- /*
Whether a program's namespace is made by its template: the release's own is there already, and one
that several programs share is made once. Takes the root and the program's key.
*/ -}}
{{- define "fairlead.makesNamespace" -}}
{{- $root := index . 0 -}}
{{- $key := index . 1 -}}
{{- $namespace := (get $root.Values $key).namespace -}}
{{- $first := "" -}}
{{- range include "fairlead.order" $root | fromJsonArray -}}
{{- $program := get $root.Values . -}}
{{- if and (not $first) $program.enabled (eq $program.namespace $namespace) -}}
{{- $first = . -}}
{{- end -}}
{{- end -}}
{{- if and $root.Values.namespaces.create (eq $first $key) (ne $namespace $root.Release.Namespace) -}}
true
{{- end -}}
{{- end -}}

{{- /*
Whether people get rights on PostgresAccess. `auto` gives them in a new release alone, or where they
are there already: in an upgrade nobody with `edit` shall make database logins unasked.
*/ -}}
{{- define "fairlead.userRoles" -}}
{{- $wanted := .Values.postgres.userRoles | default false | toString -}}
{{- if eq $wanted "auto" -}}
{{- if or .Release.IsInstall (lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" "fairlead-postgres-edit") -}}
true
{{- end -}}
{{- else if eq $wanted "true" -}}
true
{{- end -}}
{{- end -}}

{{- /*
Marks by which injectors leave a Pod alone, whose Job a container that goes on would keep from
ending. Older Istio and Kuma read annotations, newer ones labels.
*/ -}}
{{- define "fairlead.uninjected" -}}
labels:
  sidecar.istio.io/inject: "false"
  kuma.io/sidecar-injection: disabled
annotations:
  sidecar.istio.io/inject: "false"
  kuma.io/sidecar-injection: disabled
  linkerd.io/inject: disabled
  consul.hashicorp.com/connect-inject: "false"
  vault.hashicorp.com/agent-inject: "false"
  dapr.io/enabled: "false"
  openservicemesh.io/sidecar-injection: disabled
  appmesh.k8s.aws/sidecarInjectorWebhook: disabled
{{- end -}}
