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
  return status
end

-- Ready is True if it is True in each cluster. If not, its reason and message are those of the first cluster where it is not, with its name.
function AggregateStatus(desiredObj, statusItems)
  if statusItems == nil then
    return desiredObj
  end
  local ready = {type = "Ready", status = "True", reason = "ReadyInEveryCluster", message = ""}
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
  desiredObj.status.conditions = {ready}
  return desiredObj
end
