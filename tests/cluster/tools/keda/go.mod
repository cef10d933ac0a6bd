// Only its definitions are used: nothing is built.
module tillerman/keda

go 1.26.0

require github.com/kedacore/keda/v2 v2.21.0
