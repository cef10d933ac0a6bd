// Only its definitions are used: nothing is built.
module tillerman/servicemonitor

go 1.26.0

require github.com/prometheus-operator/prometheus-operator v0.85.0
