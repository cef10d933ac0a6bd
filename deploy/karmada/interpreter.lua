-- What Karmada reads of a custom resource: its health, the fields of its status that the control plane gets, and one status for all clusters.
local function condition(object, kind)
  if object.status ~= nil and object.status.conditions ~= nil then
    for _, found in ipairs(object.status.conditions) do
      if found.type == kind then
        return found
      end
    end
  end
  return nil
end

function InterpretHealth(observedObj)
  local ready = condition(observedObj, "Ready")
  if ready == nil or ready.status ~= "True" then
    return false
  end
  local seen = observedObj.status.observedGeneration
  return seen == nil or seen == observedObj.metadata.generation
end

function ReflectStatus(observedObj)
  local status = {}
  if observedObj.status == nil then
    return status
  end
  status.conditions = observedObj.status.conditions
  status.observedGeneration = observedObj.status.observedGeneration
  status.release = observedObj.status.release
  status.generation = observedObj.metadata.generation
  local annotations = observedObj.metadata.annotations
  if annotations ~= nil then
    status.resourceTemplateGeneration = tonumber(annotations["resourcetemplate.karmada.io/generation"])
  end
  return status
end

-- Ready is True if it is True in each cluster. If not, its reason and message are those of the first cluster where it is not, with its name.
-- observedGeneration is the generation here once the operator of each cluster has seen it.
function AggregateStatus(desiredObj, statusItems)
  if statusItems == nil then
    return desiredObj
  end
  local ready = {type = "Ready", status = "True", reason = "ReadyInEveryCluster", message = ""}
  local isSeen = true
  for _, item in ipairs(statusItems) do
    local status = item.status or {}
    isSeen = isSeen and status.resourceTemplateGeneration == desiredObj.metadata.generation
        and status.observedGeneration == status.generation
  end
  for _, item in ipairs(statusItems) do
    local found = nil
    if item.status ~= nil then
      found = condition(item, "Ready")
    end
    if found == nil then
      found = {status = "Unknown", reason = "Waiting", message = "no operator has reported the release yet"}
    end
    if found.status ~= "True" then
      ready.status = found.status
      ready.reason = found.reason
      ready.message = item.clusterName .. ": " .. found.message
      break
    end
    ready.lastTransitionTime = found.lastTransitionTime
  end
  if desiredObj.status == nil then
    desiredObj.status = {}
  end
  if isSeen then
    desiredObj.status.observedGeneration = desiredObj.metadata.generation
  end
  desiredObj.status.conditions = {ready}
  return desiredObj
end
