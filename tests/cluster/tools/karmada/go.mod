module wrap/karmada

go 1.26.0

require github.com/yuin/gopher-lua v1.1.1
