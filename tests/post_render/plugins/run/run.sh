#!/bin/sh
# The first argument is that of plugin.yaml.
exec sh -c "$2"
