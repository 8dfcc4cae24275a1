"""The manifests of the kubectl scenarios; NS stands for the namespace."""

from __future__ import annotations


_STAGE = """
apiVersion: v1
kind: ConfigMap
metadata: {name: one, labels: {set: reads, app: x}}
data: {x: "1"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: two, labels: {set: reads}}
data: {x: "2", y: "3"}
---
apiVersion: v1
kind: Secret
metadata: {name: hidden, labels: {set: reads}}
stringData: {password: example}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot, labels: {set: reads}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {set: reads}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: main
        image: example/app:1
        env: [{name: A, value: "1"}]
        ports: [{containerPort: 80}]
---
apiVersion: v1
kind: Service
metadata: {name: web, labels: {set: reads}}
spec:
  type: ExternalName
  externalName: example.org
---
apiVersion: v1
kind: Pod
metadata: {name: alone, labels: {set: reads}}
spec:
  containers: [{name: main, image: example/app}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, labels: {set: reads}}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, labels: {set: reads}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects:
- {kind: User, name: bob, apiGroup: rbac.authorization.k8s.io}
- {kind: ServiceAccount, name: robot, namespace: NS}
---
apiVersion: v1
kind: Event
metadata: {name: seen}
involvedObject: {apiVersion: kubectl.example.org/v1, kind: Gadget, name: stage, namespace: NS}
reason: Tested
message: It was tested
type: Warning
count: 3
firstTimestamp: "2024-01-01T00:00:00Z"
lastTimestamp: "2024-01-02T00:00:00Z"
source: {component: tester, host: here}
"""

_CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.kubectl.example.org}
spec:
  group: kubectl.example.org
  scope: Namespaced
  names: {plural: gadgets, singular: gadget, kind: Gadget, shortNames: [gg], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
    - {name: Color, type: string, jsonPath: .spec.color, priority: 1}
    schema:
      openAPIV3Schema:
        type: object
        description: A gadget.
        required: [spec]
        properties:
          spec:
            type: object
            description: What is wanted.
            required: [size]
            properties:
              size: {type: integer, minimum: 1, description: How large.}
              replicas: {type: integer}
              color: {type: string, enum: [red, blue], default: red}
              tags: {type: array, items: {type: string}}
          status:
            type: object
            x-kubernetes-preserve-unknown-fields: true
"""


def configmap(name: str, labels: str, data: str) -> str:
    head = "apiVersion: v1\nkind: ConfigMap\n"
    return f"{head}metadata: {{name: {name}, labels: {{{labels}}}}}\ndata: {{{data}}}\n"


def gadget(name: str, spec: str) -> str:
    head = "apiVersion: kubectl.example.org/v1\nkind: Gadget\n"
    return f"{head}metadata: {{name: {name}, labels: {{set: gadgets}}}}\nspec: {{{spec}}}\n"


def deployment(name: str, spec: str, label: str = "x", container: str = "image: a:1") -> str:
    return f"""
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  {spec}
  selector: {{matchLabels: {{app: {label}}}}}
  template:
    metadata: {{labels: {{app: {label}}}}}
    spec:
      containers: [{{name: main, {container}}}]
"""


FILES = {
    "stage.yaml": _STAGE,
    "crd.yaml": _CRD,
    "stage-gadget.yaml": gadget("stage", "size: 3"),
    "applied.yaml": configmap("applied", 'x: "1", y: "2"', 'one: "1", two: "2"'),
    "applied-less.yaml": configmap("applied", 'x: "1"', 'one: "1", three: "3"'),
    "applied-other.yaml": configmap("applied", 'x: "1"', 'one: "9"'),
    "replaced.yaml": configmap("replaced", 'x: "1"', 'one: "1"'),
    "g1.yaml": gadget("g1", "size: 3, tags: [a, b]"),
    "g1-more.yaml": gadget("g1", "size: 4, color: blue"),
    "g-bad.yaml": gadget("bad", "size: 0"),
    "g-type.yaml": gadget("bad", "size: many"),
    "g-unknown.yaml": gadget("bad", "size: 1, colour: red"),
    "d1.yaml": deployment("d1", "replicas: 2"),
    "d1-image.yaml": deployment("d1", "minReadySeconds: 1", container="image: a:2"),
    "d1-selector.yaml": deployment("d1", "replicas: 2", label="other"),
    "d-unknown.yaml": deployment("bad", "replicsa: 2"),
    "d-type.yaml": deployment("bad", "replicas: two"),
    "d-missing.yaml": deployment("bad", "replicas: 2", container="imagePullPolicy: Always"),
    "list.yaml": """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: l1}}
- {apiVersion: v1, kind: Secret, metadata: {name: l2}, stringData: {a: b}}
""",
    "nobody.yaml": """
apiVersion: nobody.example.org/v1
kind: Nobody
metadata: {name: x}
""",
}


def event_of(name: str, uid: str) -> str:
    return f"""
apiVersion: v1
kind: Event
metadata: {{name: described}}
involvedObject:
  {{apiVersion: kubectl.example.org/v1, kind: Gadget, name: {name}, namespace: NS, uid: {uid}}}
reason: Tested
message: It is described
type: Normal
firstTimestamp: "2024-01-01T00:00:00Z"
lastTimestamp: "2024-01-01T00:00:00Z"
count: 1
source: {{component: tester}}
"""
