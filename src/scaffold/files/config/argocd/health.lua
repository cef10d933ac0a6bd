-- The health of a custom resource in Argo CD: kstatus's rules, Degraded after a failure, and Suspended while it is paused or sleeps.
local health = {status = "Progressing", message = "the operator has not read it yet"}
local found = {}
if obj.status ~= nil and obj.status.conditions ~= nil then
  for _, condition in ipairs(obj.status.conditions) do
    found[condition.type] = condition
  end
end
local function is(kind)
  return found[kind] ~= nil and found[kind].status == "True"
end
local ready = found["Ready"]
if ready == nil then
  return health
end
if obj.metadata.deletionTimestamp == nil and obj.status.observedGeneration ~= nil
    and obj.status.observedGeneration ~= obj.metadata.generation then
  health.message = "the operator has not read the last change yet"
  return health
end
health.message = ready.message
if is("Stalled") or is("ReleaseFailed") or is("Irreconcilable") then
  health.status = "Degraded"
elseif obj.metadata.deletionTimestamp ~= nil then
  health.status = "Progressing"
elseif is("Paused") then
  health.status = "Suspended"
  health.message = found["Paused"].message
elseif ready.reason == "Asleep" then
  health.status = "Suspended"
elseif is("Ready") then
  health.status = "Healthy"
end
return health
