module tillerman/external-metrics

go 1.26.0
