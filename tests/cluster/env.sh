# Settings of the local cluster; each can be given in the environment.
# shellcheck shell=bash
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/tillerman
TOOLS=${TOOLS:-$CACHE/tools} # the programs that build-tools.sh makes
