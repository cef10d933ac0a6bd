# Settings of the local cluster; each can be given in the environment.
# shellcheck shell=bash
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/tillerman
TOOLS=${TOOLS:-$CACHE/tools} # the programs that build-tools.sh makes
NODE=${NODE:-node1}
LINK=${LINK:-tm0} # the host's end of the veth pair to the node
LINK_CIDR=${LINK_CIDR:-10.200.0.0/24} HOST_IP=${HOST_IP:-10.200.0.1} NODE_IP=${NODE_IP:-10.200.0.2}
POD_CIDR=${POD_CIDR:-10.244.0.0/16} POD_SUBNET=${POD_SUBNET:-10.244.0.0/24}
SVC_CIDR=${SVC_CIDR:-10.96.0.0/16} API_SVC_IP=${API_SVC_IP:-10.96.0.1}
STATE=${STATE:-$CACHE/node}      # what the running node writes
IMAGES=${IMAGES:-$CACHE/images}  # container images as OCI archives
