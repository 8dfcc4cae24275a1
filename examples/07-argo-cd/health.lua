-- The health of a PostgresAccess for Argo CD, which takes this as
-- resource.customizations.health.access.k8s.delta10.nl_PostgresAccess in ConfigMap argocd-cm.
-- https://argo-cd.readthedocs.io/en/stable/operator-manual/health/
local status = obj.status or {}

local function condition(kind)
  for _, one in ipairs(status.conditions or {}) do
    if one.type == kind then
      return one
    end
  end
  return {}
end

local health = { status = "Progressing", message = "the operator has not checked it yet" }

if obj.metadata.deletionTimestamp ~= nil then
  health.message = status.lastLog or "it is being deleted"
  return health
end

if obj.spec.suspend then
  health.status = "Suspended"
  health.message = "spec.suspend is set; the operator does nothing"
  return health
end

if status.observedGeneration ~= obj.metadata.generation then
  return health
end

local ready = condition("Ready")
health.message = ready.message or health.message
if ready.status == "True" then
  health.status = "Healthy"
elseif ready.reason == "Observed" or ready.reason == "ApprovalPending" then
  -- A person has to decide: nothing goes on by itself.
  health.status = "Suspended"
elseif condition("Stalled").status == "True" then
  health.status = "Degraded"
elseif status.lastReconcileState == "Error" then
  health.status = "Degraded"
end
return health
